"""Valid usage reports, which tests modify."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tests.support.clock import EPOCH

from slackwater.bus.port import Received
from slackwater.events.envelope import event_of
from slackwater.events.measures import Distribution, HostAppUsage, PodUsage, Usage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.report_columns import Trigger
from slackwater.events.usage_reported import UsageReported
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos

GIB = 2**30


def distribution(level: int, samples: int = 5) -> Distribution:
    """A distribution with all samples at one level."""
    return Distribution(avg=level, p50=level, p90=level, p95=level, p99=level, max=level, last=level, count=samples)


def usage(cpu_milli: int, memory_bytes: int = GIB, samples: int = 5) -> Usage:
    return Usage(cpu_milli=distribution(cpu_milli, samples), memory_bytes=distribution(memory_bytes, samples))


def pod(uid: str, tier: Tier = Tier.PROD, **details: Any) -> Pod:
    """`details`: fields of Pod that differ."""
    plain = Pod(
        uid=uid,
        name=uid,
        namespace="default",
        workload=f"default/{uid}",
        tier=tier,
        qos=default_qos(tier),
        priority=DEFAULT_PRIORITY[tier],
        request=Resources(1000, GIB),
        started_at=EPOCH,
    )
    return replace(plain, **details)


def pod_usage(uid: str, tier: Tier = Tier.PROD, cpu_milli: int = 500, **details: Any) -> PodUsage:
    return PodUsage(pod=pod(uid, tier, **details), usage=usage(cpu_milli, GIB // 4))


def host_app(name: str, tier: Tier = Tier.PROD, cpu_milli: int = 200) -> HostAppUsage:
    return HostAppUsage(name, tier, usage(cpu_milli, GIB // 8))


def report(
    node: str,
    sequence: int,
    sampled_at: datetime,
    *,
    boot_epoch: str = "boot-1",
    cpu_milli: int = 1000,
    pods: Sequence[PodUsage] = (),
    window_seconds: float = 5.0,
    trigger: Trigger = "interval",
    host_apps: Sequence[HostAppUsage] = (),
) -> UsageReported:
    return UsageReported(
        node=node,
        boot_epoch=boot_epoch,
        sequence=sequence,
        sampled_at=sampled_at,
        window_seconds=window_seconds,
        trigger=trigger,
        node_usage=usage(cpu_milli),
        system_usage=usage(cpu_milli // 10),
        pods=tuple(pods),
        host_apps=tuple(host_apps),
    )


def described(node: str, at: datetime, cpu_milli: int = 4000, memory_bytes: int = 8 * GIB) -> NodeDescribed:
    facts = NodeFacts(
        name=node,
        pool="default",
        capacity=Resources(cpu_milli, memory_bytes),
        reserved=Resources(),
        topology=CpuTopology(4, 4, 1, 1),
        kernel="6.1",
        cgroup_version="v2",
        driver="simulated",
        agent_version="test",
    )
    return NodeDescribed(facts=facts, boot_epoch="boot-1", described_at=at)


def received(data: UsageReported, *, key: str | None = None, deliveries: int = 1) -> Received[UsageReported]:
    """A report as the bus delivers it; `key` overrides that of the subject."""
    event = event_of(data, source="tests", time=data.sampled_at)
    return Received(event, 0, deliveries, data.node if key is None else key)
