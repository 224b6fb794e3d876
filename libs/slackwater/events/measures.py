"""Types shared by several events: distributions over a window, usage and pressure.

Plain dataclasses instead of pydantic models, because a report holds about two hundred of them.
"""

from __future__ import annotations

from slackwater.model.bounds import CpuMilli, MachineAmount, Name, Ratio, Samples
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import Tier


@record(frozen=True, slots=True)
class Distribution:
    """Statistics of the samples in one window, in the unit that the field name states (milli-cores or bytes).

    Percentiles are nearest-rank. `count` is the number of samples; with 0 the other values are void.
    """

    avg: MachineAmount = 0
    p50: MachineAmount = 0
    p90: MachineAmount = 0
    p95: MachineAmount = 0
    p99: MachineAmount = 0
    max: MachineAmount = 0
    last: MachineAmount = 0
    count: Samples = 0


@record(frozen=True, slots=True)
class Usage:
    """CPU in milli-cores and memory in bytes over one window."""

    cpu_milli: Distribution
    memory_bytes: Distribution


@record(frozen=True, slots=True)
class Pressure:
    """Share of wall time (0..1) in which some task was stalled, over the last sampling interval and over the window.

    Computed from the totals of the kernel's PSI, not its decaying averages, so that it is exact for the interval. None
    where the kernel has no PSI.
    """

    cpu_some_last: Ratio | None = None
    cpu_some_avg: Ratio | None = None
    cpu_some_max: Ratio | None = None
    memory_some_avg: Ratio | None = None
    io_some_avg: Ratio | None = None


@record(frozen=True, slots=True)
class HostAppUsage:
    """Usage in one window of a host application: a program outside of pods that the operator accounts separately."""

    name: Name
    tier: Tier
    usage: Usage


@record(frozen=True, slots=True)
class PodUsage:
    """One pod in one window: its identity, usage, pressure and CPU limits.

    `cpu_limit_milli` is the limit in force now (None = unlimited), `original_cpu_limit_milli` the one before any
    throttle by Slackwater, `throttled_ratio` the share of the window's CFS periods in which the pod was throttled.
    """

    pod: Pod
    usage: Usage
    pressure: Pressure = Pressure()
    cpu_limit_milli: CpuMilli | None = None
    original_cpu_limit_milli: CpuMilli | None = None
    throttled_ratio: Ratio | None = None
