"""Pods and nodes for the tests of the precise framework, with the fields that a test cares about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from slackwater.model.tiers import DEFAULT_PRIORITY, QoSClass, Tier, default_qos
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.facts.pods import Container, PodUse

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def use(uid: str, tier: Tier = Tier.BATCH, cpu: int | None = 500, memory: int | None = 0, **fields: Any) -> PodUse:
    """A pod with one container without a quota."""
    container = Container("main", usage_milli=cpu)
    plain = PodUse(
        uid=uid,
        name=f"name-{uid}",
        tier=tier,
        qos=default_qos(tier),
        priority=DEFAULT_PRIORITY[tier],
        started_at=NOON - timedelta(hours=1),
        cpu_usage_milli=cpu,
        memory_usage_bytes=memory,
        containers=(container,),
    )
    return replace(plain, **fields)


def view(*pods: PodUse, at: float = 0, capacity: int = 10_000, memory: int = 2**34, **readings: Any) -> NodeReadings:
    """A node whose readings are given by metric name; CPU usage is the sum of its pods unless given."""
    total = sum(pod.cpu_usage_milli or 0 for pod in pods)
    known = {"node_cpu_usage": total, "node_cpu_usage_ratio": total / capacity} | readings
    return NodeReadings(
        node="n1",
        sampled_at=NOON + timedelta(seconds=at),
        readings={name: (MetricSeries(value),) for name, value in known.items() if value is not None},
        capacity_milli=capacity,
        capacity_bytes=memory,
        pods=pods,
    )


@st.composite
def pod_uses(draw: st.DrawFn) -> PodUse:
    tier = draw(st.sampled_from(list(Tier)))
    cpu = draw(st.none() | st.integers(0, 4000))
    quotas = st.none() | st.integers(1_000, 400_000)
    names = [f"c{number}" for number in range(draw(st.integers(1, 3)))]
    containers = []
    for name in names:
        original = draw(quotas)
        containers.append(
            Container(
                name,
                usage_milli=None if cpu is None else cpu // len(names),
                quota_us=original,
                original_quota_us=original,
                request_milli=draw(st.none() | st.integers(0, 3000)),
                limit_milli=draw(st.none() | st.integers(0, 4000)),
                waiting_ratio=draw(st.none() | st.sampled_from([0, 0.5, 0.95, 1])),
            )
        )
    return use(
        draw(st.uuids().map(str)),
        tier,
        cpu,
        draw(st.none() | st.integers(0, 2**33)),
        qos=draw(st.none() | st.sampled_from(list(QoSClass))),
        priority=draw(st.none() | st.integers(-10, 9999)),
        extended_cpu_limit_milli=draw(st.sampled_from([0, 500, 4000])),
        started_at=draw(st.none() | st.integers(0, 3).map(lambda age: NOON - timedelta(seconds=age))),
        containers=tuple(containers),
    )


crowds = st.lists(pod_uses(), max_size=5, unique_by=lambda pod: pod.uid)
