"""Types shared by several events: distributions over a window, usage and pressure.

Plain dataclasses instead of pydantic models, because a report holds about two hundred of them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from slackwater.model.bounds import CpuMilli, MachineAmount, Name, Ratio, Samples
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import Tier


def is_unknown(value: object) -> bool:
    """Whether a field is omitted from the JSON because its value is unknown."""
    return value is None


Code = Annotated[Name | None, Field(exclude_if=is_unknown)]
"""A stable reason, omitted from the JSON if None."""
KnownBytes = Annotated[MachineAmount | None, Field(exclude_if=is_unknown)]
"""Bytes, omitted from the JSON if None."""


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

    `memory_high_bytes` is the memory.high in force now (None = unlimited), `original_memory_high_bytes` the one before
    any throttle by Slackwater. `reclaimable_bytes` is the page cache of the pod that the kernel can drop, in
    addition to `usage.memory_bytes`, which holds what it cannot drop: the sum is what memory.high counts. None means
    that the agent does not measure it, so the pod's memory is not throttled. All three are omitted if None.

    `unread` states why the CPU limit could not be read; both CPU limits are then those that were read last (None:
    unlimited, or never read). The pod is there: its limits stay. Omitted if the limit was read.
    """

    pod: Pod
    usage: Usage
    pressure: Pressure = Pressure()
    cpu_limit_milli: CpuMilli | None = None
    original_cpu_limit_milli: CpuMilli | None = None
    throttled_ratio: Ratio | None = None
    memory_high_bytes: KnownBytes = None
    original_memory_high_bytes: KnownBytes = None
    reclaimable_bytes: KnownBytes = None
    unread: Code = None
