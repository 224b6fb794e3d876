"""Shapes that several events share: distributions over a window and pressure.

Plain dataclasses, not models: a report holds two hundred of them, and every one is made for every report.
"""

from __future__ import annotations

from slackwater.model.bounds import CpuMilli, MachineAmount, Name, Ratio, Samples
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import Tier


@record(frozen=True, slots=True)
class Distribution:
    """A series over one window, in the unit its field names (milli-cores or bytes).

    Percentiles are nearest-rank over the samples. `count` is the number of samples; 0 means the rest is void.
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
    """Share of wall time (0..1) in which some task waited, over the last sampling interval and over the window.

    From the kernel's PSI totals, not its decaying averages: exact for the interval. None where the kernel has none.
    """

    cpu_some_last: Ratio | None = None
    cpu_some_avg: Ratio | None = None
    cpu_some_max: Ratio | None = None
    memory_some_avg: Ratio | None = None
    io_some_avg: Ratio | None = None


@record(frozen=True, slots=True)
class HostAppUsage:
    """A program of the machine outside of pods that its operator wants counted apart, in one window."""

    name: Name
    tier: Tier
    usage: Usage


@record(frozen=True, slots=True)
class PodUsage:
    """One pod in one window: who it is, what it used, how it waited, what it was limited to.

    `cpu_limit_milli` is the limit in force now (None = unlimited), `original_cpu_limit_milli` the one before any
    throttle of ours, `throttled_ratio` the share of CFS periods in the window in which the pod was stopped.
    """

    pod: Pod
    usage: Usage
    pressure: Pressure = Pressure()
    cpu_limit_milli: CpuMilli | None = None
    original_cpu_limit_milli: CpuMilli | None = None
    throttled_ratio: Ratio | None = None
