"""Small makers of usage.windowed events for the tests of prediction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_windowed import UsageWindowed, WindowedPod, WindowedUsage
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier

START = datetime(2026, 1, 5, tzinfo=UTC)
FIRST_NUMBER = int(START.timestamp()) // 60


def usage(cpu: int, memory: int = 2**30, samples: int = 60) -> WindowedUsage:
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
    qos = QoSClass.LS if tier in (Tier.PROD, Tier.MID) else QoSClass.BE
    return Pod(uid, uid, "default", f"w-{uid}", tier, qos, 9500, Resources(request, 2**31), START)


def window(node: str, number: int, pods: dict[str, int], *, system: int | None = 300) -> Event[UsageWindowed]:
    start = START + timedelta(minutes=number)
    measured = tuple(WindowedPod(pod=pod(uid), usage=usage(cpu)) for uid, cpu in sorted(pods.items()))
    total = sum(pods.values())
    data = UsageWindowed(
        node=node,
        number=FIRST_NUMBER + number,
        window_start=start,
        window_seconds=60,
        node_usage=usage(total + (system or 0)),
        system_usage=None if system is None else usage(system),
        tiers={"prod": usage(total)} if pods else {},
        pods=measured,
        reports=12,
        gaps=0,
    )
    return event_of(data, source="ingestion", time=start, id=f"{node}-{number}")
