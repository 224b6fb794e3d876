"""What was used in one window: of a node, a tier, a pod or a host application."""

from __future__ import annotations

from slackwater.model.bounds import Count, CpuMilliSum, MemoryBytesSum, Name
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
