"""Builders of nodes, windows and their events, for tests of their consumers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from slackwater.events.envelope import Event, event_of
from slackwater.events.measures import Usage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.windowed_usage import WindowedHostApp, WindowedPod, WindowedUsage
from slackwater.model.nodes import CpuTopology, NodeFacts, NumaNode
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier

START = datetime(2026, 1, 5, tzinfo=UTC)
FIRST_NUMBER = int(START.timestamp()) // 60


def usage(cpu: int, memory: int = 2**30, samples: int = 60) -> WindowedUsage:
    """Constant usage: all statistics are equal."""
    return WindowedUsage(
        cpu_avg_milli=cpu,
        cpu_p90_milli=cpu,
        cpu_p95_milli=cpu,
        cpu_max_milli=cpu,
        memory_avg_bytes=memory,
        memory_p90_bytes=memory,
        memory_p95_bytes=memory,
        memory_max_bytes=memory,
        samples=samples,
    )


def pod(uid: str, tier: Tier = Tier.PROD, request: int = 2000) -> Pod:
    """A pod that requests `request` milli-cores and 2 GiB and started the day before START."""
    qos = QoSClass.LS if tier in (Tier.PROD, Tier.MID) else QoSClass.BE
    return Pod(uid, uid, "default", f"w-{uid}", tier, qos, 9500, Resources(request, 2**31), START - timedelta(days=1))


def window(
    node: str,
    number: int,
    pods: dict[str, int],
    *,
    system: int | None = 300,
    host_apps: Mapping[tuple[str, Tier], int] | None = None,
) -> Event[UsageWindowed]:
    """The window of the `number`-th minute after START. Prod pods by uid and `host_apps` by name and tier have their
    milli-cores. The same arguments give the same id."""
    start = START + timedelta(minutes=number)
    measured = tuple(WindowedPod(pod=pod(uid), usage=usage(cpu)) for uid, cpu in sorted(pods.items()))
    total, apps = sum(pods.values()), host_apps or {}
    data = UsageWindowed(
        node=node,
        number=FIRST_NUMBER + number,
        window_start=start,
        window_seconds=60,
        node_usage=usage(total + (system or 0) + sum(apps.values())),
        system_usage=None if system is None else usage(system),
        tiers={"prod": usage(total)} if pods else {},
        pods=measured,
        reports=12,
        gaps=0,
        host_apps=tuple(WindowedHostApp(name, tier, usage(cpu)) for (name, tier), cpu in sorted(apps.items())),
    )
    return event_of(data, source="ingestion", time=start, id=event_id("usage.windowed", node, number))


def described(
    node: str, cpu_milli: int = 8000, memory_bytes: int = 2**34, *, number: int = 0, zones: int = 1
) -> Event[NodeDescribed]:
    """The description of a node in the `number`-th minute, with equal NUMA zones."""
    at = START + timedelta(minutes=number)
    facts = NodeFacts(
        name=node,
        pool="default",
        capacity=Resources(cpu_milli, memory_bytes),
        reserved=Resources(),
        topology=CpuTopology(cpus=8, cores=4, sockets=1, numa_nodes=zones),
        kernel="6.1.0",
        cgroup_version="v2",
        driver="simulated",
        agent_version="0.0.0",
        numa=tuple(
            NumaNode(f"node{zone}", Resources(cpu_milli // zones, memory_bytes // zones)) for zone in range(zones)
        )
        if zones > 1
        else (),
    )
    data = NodeDescribed(facts=facts, boot_epoch="boot-1", described_at=at)
    return event_of(data, source="agent", time=at, id=event_id("node.described", node, number))


def event_id(kind: str, node: str, number: int) -> str:
    """Returns the same id for the same event, so that a test can publish it twice."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{node}/{number}"))


def window_of(report: UsageReported, seconds: int = 1) -> UsageWindowed:
    """The window that ends with a report and has its averages throughout."""
    start = report.sampled_at - timedelta(seconds=seconds)
    return UsageWindowed(
        node=report.node,
        number=int(start.timestamp()) // seconds,
        window_start=start,
        window_seconds=seconds,
        node_usage=_level(report.node_usage),
        system_usage=None if report.system_usage is None else _level(report.system_usage),
        tiers={},
        pods=tuple(WindowedPod(usage.pod, _level(usage.usage)) for usage in report.pods),
        reports=1,
        gaps=0,
    )


def _level(usage: Usage) -> WindowedUsage:
    cpu, memory = usage.cpu_milli, usage.memory_bytes
    return WindowedUsage(cpu.avg, cpu.p90, cpu.p95, cpu.max, memory.avg, memory.p90, memory.p95, memory.max, cpu.count)
