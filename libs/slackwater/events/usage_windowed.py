"""usage.windowed: the validated usage of one node in one aligned window. Durable; consumers fold it exactly once."""

from __future__ import annotations

import operator
from typing import ClassVar

from pydantic import Field

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, CpuMilliSum, Items, Mapped, MemoryBytesSum, Moment, Name, WindowSeconds
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import Tier


@record(frozen=True, slots=True)
class WindowedUsage:
    """Average, p90, p95 and maximum in one window: CPU in milli-cores, memory in bytes. `samples` 0 means absent."""

    cpu_avg_milli: CpuMilliSum
    cpu_p90_milli: CpuMilliSum
    cpu_p95_milli: CpuMilliSum
    cpu_max_milli: CpuMilliSum
    memory_avg_bytes: MemoryBytesSum
    memory_p90_bytes: MemoryBytesSum
    memory_p95_bytes: MemoryBytesSum
    memory_max_bytes: MemoryBytesSum
    samples: Count


@record(frozen=True, slots=True)
class WindowedPod:
    """The usage of one pod in the window."""

    pod: Pod
    usage: WindowedUsage


@record(frozen=True, slots=True)
class WindowedHostApp:
    """The usage of one host application in the window; `system_usage` does not include it."""

    name: Name
    tier: Tier
    usage: WindowedUsage


class UsageWindowed(Payload):
    """One window of a node. `number` = window_start // window_seconds, so that consumers can deduplicate.

    `tiers` has entries only for tiers with pods. `gaps` is the number of reports known to be missing from the window.
    `host_apps` is omitted if empty.
    """

    TYPE: ClassVar[str] = "usage.windowed"
    STREAM: ClassVar[str] = "WINDOWS"

    node: Name
    number: Count
    window_start: Moment
    window_seconds: WindowSeconds
    node_usage: WindowedUsage
    system_usage: WindowedUsage | None
    tiers: Mapped[WindowedUsage]
    pods: Items[WindowedPod]
    reports: Count
    gaps: Count
    host_apps: Items[WindowedHostApp] = Field(default=(), exclude_if=operator.not_)

    def key(self) -> str:
        return self.node
