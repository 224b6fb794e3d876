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


_TIERS, _UIDS = st.sampled_from(list(Tier)), st.integers(0, 2**64 - 1).map("{:016x}".format)
_USED_MILLI, _USED_BYTES = st.none() | st.integers(0, 4000), st.none() | st.integers(0, 2**33)
_NAMES = st.sampled_from([("c0",), ("c0", "c1"), ("c0", "c1", "c2")])
_CONTAINERS = st.fixed_dictionaries(
    {
        "original_quota_us": st.none() | st.integers(1_000, 400_000),
        "request_milli": st.none() | st.integers(0, 3000),
        "limit_milli": st.none() | st.integers(0, 4000),
        "waiting_ratio": st.sampled_from([None, 0, 0.5, 0.95, 1]),
    }
)
_FIELDS = st.fixed_dictionaries(
    {
        "qos": st.none() | st.sampled_from(list(QoSClass)),
        "priority": st.none() | st.integers(-10, 9999),
        "extended_cpu_limit_milli": st.sampled_from([0, 500, 4000]),
        "started_at": st.sampled_from([None, *(NOON - timedelta(seconds=age) for age in range(4))]),
    }
)
"""Made once: a strategy that each drawing makes again costs more than what it draws."""


@st.composite
def pod_uses(draw: st.DrawFn) -> PodUse:
    tier, cpu, names = draw(_TIERS), draw(_USED_MILLI), draw(_NAMES)
    containers = []
    for name in names:
        fields = draw(_CONTAINERS)
        usage = None if cpu is None else cpu // len(names)
        containers.append(Container(name, usage_milli=usage, quota_us=fields["original_quota_us"], **fields))
    return use(draw(_UIDS), tier, cpu, draw(_USED_BYTES), containers=tuple(containers), **draw(_FIELDS))


crowds = st.lists(pod_uses(), max_size=5, unique_by=lambda pod: pod.uid)
