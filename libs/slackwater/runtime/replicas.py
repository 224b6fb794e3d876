"""Partition ownership of one replica of a service: construction, metrics and health check."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from prometheus_client import Gauge

from slackwater.runtime.partition_sharding import Ownership
from slackwater.runtime.service import Check
from slackwater.telemetry.metrics import Meters, process_meters

if TYPE_CHECKING:
    from slackwater.runtime.platform import Platform
    from slackwater.store.port import Database


class OwnershipMetrics:
    """slackwater.runtime.partition_sharding.OwnershipMeter with Prometheus metrics."""

    def __init__(self, service: str, meters: Meters) -> None:
        self._service = service
        labels = ["service"]
        self._held = meters.gauge(
            "slackwater_ownership_partitions",
            "Partitions owned by this replica.",
            labels,
            look="Sum below 8 for over ten seconds: work waits.",
        )
        self._unowned = meters.gauge(
            "slackwater_ownership_unowned_partitions",
            "Partitions without a living owner.",
            labels,
            look="Above 0 for longer than a lease (5 s): work waits.",
        )
        self._members = meters.gauge(
            "slackwater_ownership_members",
            "Living replicas of the service.",
            labels,
            look="Fewer than were started.",
        )
        self._epoch = meters.gauge(
            "slackwater_ownership_epoch_seconds",
            "This replica's newest claim, since 1970.",
            labels,
            look="Constant change: restarts, or late heartbeats.",
        )
        self._moved = meters.counter(
            "slackwater_ownership_handovers_total",
            "Partitions claimed, released, lost.",
            ["service", "kind"],
            look="`lost` grows: a replica was stalled or disconnected longer than its lease.",
        )
        self._fenced = meters.counter(
            "slackwater_ownership_fenced_writes_total",
            "Transactions refused: another replica owns the partition.",
            labels,
            look="Grows with `lost`, a few at a time; alone: a defect.",
        )
        self._fenced.labels(service)  # a counter that shows 0 can be alerted on from the start

    @cached_property
    def _of_service(self) -> tuple[Gauge, Gauge, Gauge, Gauge]:
        """The gauges of each heartbeat; looking up their labels takes longer than setting them."""
        held, unowned, members, epoch = (
            gauge.labels(self._service) for gauge in (self._held, self._unowned, self._members, self._epoch)
        )
        return held, unowned, members, epoch

    def held(self, leases: Mapping[int, int], unowned: int, members: int) -> None:
        shown = (len(leases), unowned, members, max(leases.values(), default=0) / 1000)
        for gauge, value in zip(self._of_service, shown, strict=True):
            gauge.set(value)

    def moved(self, kind: str, count: int) -> None:
        self._moved.labels(self._service, kind).inc(count)

    def fenced(self) -> None:
        self._fenced.labels(self._service).inc()


def ownership_of(platform: Platform, service: str, database: Database) -> Ownership:
    """Returns this process's ownership of a service's partitions."""
    metrics = OwnershipMetrics(service, process_meters())
    return Ownership(database.leases(platform.member), service, platform.clock, metrics, platform.timing)


def ownership_check(ownership: Ownership) -> Check:
    """Returns the /readyz check: a replica without a partition is ready, one without a heartbeat is
    not.
    """
    held = len(ownership.held())
    if not ownership.is_current:
        why = "no heartbeat: PostgreSQL does not answer, or takes no writes"
        return Check(f"{ownership.service}-shards", False, why)
    view = ownership.view
    return Check(f"{ownership.service}-shards", True, f"owns {held} of {len(view.leases) if view else 0} partitions")
