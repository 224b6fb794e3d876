"""One tick of measurements as a driver hands it over: cumulative counters with the time of reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from slackwater.model.pods import Pod
from slackwater.model.tiers import Tier


@dataclass(frozen=True, slots=True)
class PsiTotals:
    """Cumulative microseconds in which some task waited (PSI `some total=`); None where the kernel has none."""

    cpu_some_us: int | None = None
    memory_some_us: int | None = None
    io_some_us: int | None = None


@dataclass(frozen=True, slots=True)
class PodSample:
    """One pod's counters: cumulative CPU nanoseconds, memory bytes now, PSI totals, CFS periods. None = unknown."""

    uid: str
    cpu_ns: int | None = None
    memory_bytes: int | None = None
    psi: PsiTotals = PsiTotals()
    periods: int | None = None
    throttled_periods: int | None = None
    cache_bytes: int | None = None
    """Page cache that the kernel can drop, beside `memory_bytes`."""


@dataclass(frozen=True, slots=True)
class DiskSample:
    """Cumulative milliseconds in which a disk had something to do."""

    name: str
    busy_ms: int


@dataclass(frozen=True, slots=True)
class LinkSample:
    """Cumulative bytes of an interface, and bytes per second that it could carry each way (None = it does not tell)."""

    name: str
    received_bytes: int
    sent_bytes: int
    capacity_per_second: int | None = None


@dataclass(frozen=True, slots=True)
class HostSample:
    """One host application's counters, as of pods. Half of one would be taken for zero: where one of the two cannot be
    read, the application is not there at all."""

    name: str
    tier: Tier
    cpu_ns: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class RawSample:
    """Everything read in one tick. Counters are cumulative; None is unknown, never 0.

    `node_cpu_busy_ns` is the time all CPUs together were not idle, `node_memory_bytes` MemTotal minus MemAvailable.
    `tier_psi` holds the pressure of a tier's pods together. `host_apps` has those that are there now, and no others.
    """

    monotonic: float
    at: datetime
    node_cpu_busy_ns: int | None = None
    node_memory_bytes: int | None = None
    node_psi: PsiTotals = PsiTotals()
    tier_psi: Mapping[Tier, PsiTotals] = field(default_factory=dict)
    pods: tuple[PodSample, ...] = ()
    disks: tuple[DiskSample, ...] = ()
    links: tuple[LinkSample, ...] = ()
    host_apps: tuple[HostSample, ...] = ()
    node_free_bytes: int | None = None
    """Memory that nothing uses, page cache neither."""
    prod_refault_bytes: int | None = None
    """Cumulative bytes of file pages that prod pods read again after the kernel had dropped them."""
    failed_pods: tuple[Pod, ...] = ()
    """Pods that have ended with a failure and are listed still."""
