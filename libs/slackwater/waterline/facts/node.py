"""One node at one moment: its readings by metric, its size, its pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from decimal import Decimal

from slackwater.model.devices import DiskUse, LinkUse
from slackwater.model.records import record
from slackwater.waterline.facts.amounts import ZERO, Number, exact
from slackwater.waterline.facts.pods import PodUse


@record(frozen=True, slots=True)
class MetricSeries:
    """One measured value, with labels for its source (a disk, an interface)."""

    value: Number
    labels: Mapping[str, str] = field(default_factory=dict)


@record(frozen=True, slots=True)
class BestEffortCpu:
    """CPU of all BE pods together over one time window, in milli-cores.

    `limit_milli` is the CPU they may use, `allocatable_milli` the CPU the node offers them (None =
    unknown), `covered_ratio` the share (0..1) of the window that has samples.
    """

    usage_milli: Number
    request_milli: Number
    limit_milli: Number
    allocatable_milli: Number | None = None
    covered_ratio: Number = 1


@record(frozen=True, slots=True)
class NodeReadings:
    """The readings of a node at `sampled_at`, by metric name; an absent metric is unknown.

    `best_effort_window` and `best_effort_last` have the same form, over the satisfaction window and
    over the last interval. `extended_*_allocatable` is the node's batch offer (None = unknown),
    `mid_*` its mid offer.
    """

    node: str
    sampled_at: datetime
    readings: Mapping[str, tuple[MetricSeries, ...]] = field(default_factory=dict)
    capacity_milli: int | None = None
    capacity_bytes: int | None = None
    pods: tuple[PodUse, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    prod_usage_milli: Number | None = None
    best_effort_window: BestEffortCpu | None = None
    best_effort_last: BestEffortCpu | None = None
    extended_cpu_allocatable_milli: int | None = None
    extended_memory_allocatable_bytes: int | None = None
    mid_cpu_allocatable_milli: int | None = None
    mid_memory_allocatable_bytes: int | None = None
    disks: tuple[DiskUse, ...] = ()
    links: tuple[LinkUse, ...] = ()
    cpu_weights: str = ""
    """The CPU weights that the agent found in force in the kernel: by-tier or by-tier-idle; empty: none that put prod
    first, or unknown."""


@record(frozen=True, slots=True)
class UsageShares:
    """A node's usage in three parts: selected pods, selected host applications, and the system."""

    pods: Number
    host_applications: Number
    system: Number


@record(frozen=True, slots=True)
class ResourceConsumer:
    """A pod or host application, its usage, and whether it is selected."""

    usage: Number
    is_chosen: bool


def usage_shares(
    node_usage: Number,
    reserved: Number,
    pods: Iterable[ResourceConsumer],
    host_applications: Iterable[ResourceConsumer] = (),
) -> UsageShares:
    """Returns the three shares. The system's is the remaining usage, but at least its
    reservation.
    """
    all_pods, all_hosts = tuple(pods), tuple(host_applications)
    rest = exact(node_usage) - _sum(all_pods) - _sum(all_hosts)
    return UsageShares(
        pods=_sum(pod for pod in all_pods if pod.is_chosen),
        host_applications=_sum(host for host in all_hosts if host.is_chosen),
        system=max(rest, exact(reserved), ZERO),
    )


def _sum(consumers: Iterable[ResourceConsumer]) -> Decimal:
    return sum((exact(consumer.usage) for consumer in consumers), ZERO)
