"""Health events and usage windows of the story."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from slackwater.events.envelope import Event, event_of
from slackwater.events.health_reported import HealthCheck, HealthReported, LeaseHealth, LimitedHealth, ServiceHealth
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.windowed_usage import WindowedUsage
from slackwater.model.identifiers import PARTITIONS
from slackwater.runtime.service_list import service_list

HEALTH_SECONDS = 5
MEMBER = "harbour-4711-0a1b2c3d/0a1b2c3d"
GIB = 2**30
LIMITED = (
    LimitedHealth(kind="stream", name="DECISIONS", used=GIB // 5, limit=4 * GIB),
    LimitedHealth(kind="disk", name="state", used=61 * GIB, limit=250 * GIB),
    LimitedHealth(kind="descriptors", name="process", used=112, limit=1024),
    LimitedHealth(kind="pool", name="ensurance", used=1, limit=6),
)


def health(end: datetime, length_seconds: int) -> list[Event[Any]]:
    """Returns the health events of the story's only process."""
    start = end - timedelta(seconds=length_seconds)
    events = []
    for second in range(HEALTH_SECONDS, length_seconds + 1, HEALTH_SECONDS):
        at = start + timedelta(seconds=second)
        services = []
        for number, (name, spec) in enumerate(sorted(service_list().services.items())):
            checks = tuple(HealthCheck(name=f"{name}-{what}", ok=True) for what in ("bus", "database"))
            depth = (second // HEALTH_SECONDS * (number + 1)) % 3 if spec.partitions else 0
            services.append(
                ServiceHealth(
                    name=name,
                    state="running",
                    checks=checks,
                    outbox_depth=depth,
                    outbox_oldest_seconds=depth * 0.004,
                    outbox_refused=0,
                    **(shares(start) if spec.partitions else {}),
                )
            )
        data = HealthReported(
            instance="harbour-4711",
            version="0.1.0",
            started_at=start - timedelta(hours=3),
            reported_at=at,
            interval_seconds=HEALTH_SECONDS,
            services=tuple(services),
            limited=LIMITED,
        )
        events.append(event_of(data, source="story", time=at, id=str(uuid5(NAMESPACE_URL, f"health/{second}"))))
    return events


def shares(start: datetime) -> dict[str, Any]:
    """The partitions, all owned by the one process since its start."""
    since = start - timedelta(hours=3)
    epoch = int(since.timestamp() * 1000)
    leases = [LeaseHealth(partition=number, owner=MEMBER, epoch=epoch, since=since) for number in range(PARTITIONS)]
    return {"member": MEMBER, "members": 1, "leases": tuple(leases)}


def window_of(node: str, number: int, start: datetime, seconds: int, prod: int, system: int) -> UsageWindowed:
    """A full window with this usage of prod and the system in milli-cores."""
    return UsageWindowed(
        node=node,
        number=number,
        window_start=start,
        window_seconds=seconds,
        node_usage=windowed(prod + 3000),
        system_usage=windowed(system),
        tiers={"prod": windowed(prod)},
        pods=(),
        reports=12,
        gaps=0,
    )


def windowed(cpu: int) -> WindowedUsage:
    high = round(cpu * 1.08)
    return WindowedUsage(
        cpu_avg_milli=cpu,
        cpu_p90_milli=high,
        cpu_p95_milli=high,
        cpu_max_milli=high,
        memory_avg_bytes=GIB,
        memory_p90_bytes=GIB,
        memory_p95_bytes=GIB,
        memory_max_bytes=GIB,
        samples=60,
    )
