"""The page of the control loop's health: its latency, consumer lag, silent processes, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slackwater.bus.admin.broker_admin import BrokerAdmin, ConsumerState
from slackwater.charts.latency_chart import DurationSpread, height_of, latency_chart
from slackwater.console.domain.fleet import FRESH, NodeQuery, Totals
from slackwater.console.domain.loop import CheckView, LimitedRow, ServiceRow, limited_rows, service_rows, spreads_of
from slackwater.console.domain.shards import ReplicaView, replicas_of, shard_views
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.overview import NodeRow, known_waterline, node_row
from slackwater.console.usecases.pictures import HALF, Picture, both
from slackwater.model.errors import Unavailable
from slackwater.model.limited_resource import FillLevel
from slackwater.runtime.service_list import service_names

SINCE = timedelta(hours=24)
MOST = 2000
SILENT_SHOWN = 8


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The broker's state; `error` if it does not answer."""

    consumers: Sequence[ConsumerState]
    letters: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class LoopPage:
    """`/loop`."""

    now: datetime
    actions: int
    spreads: Sequence[DurationSpread]
    picture: Picture
    services: Sequence[ServiceRow]
    replicas: Sequence[ReplicaView]
    broker: BrokerState
    totals: Totals
    silent: Sequence[NodeRow]
    limited: Sequence[LimitedRow]

    @property
    def filling(self) -> Sequence[LimitedRow]:
        """What is nearly full or full."""
        return [row for row in self.limited if row.resource.level is not FillLevel.FINE]

    @property
    def effect(self) -> DurationSpread:
        """The whole path from sample to effect."""
        return self.spreads[-1]

    @property
    def set_aside(self) -> Sequence[CheckView]:
        """Quarantines with items, of services that report."""
        told = (check for row in self.services if row.service and not row.silent for check in row.service.checks)
        return [check for check in told if check.name.endswith("-quarantine") and check.detail != "empty"]

    @property
    def pending(self) -> int:
        return sum(consumer.pending for consumer in self.broker.consumers)

    @property
    def busy(self) -> Sequence[ConsumerState]:
        """Consumers with lag or other findings, the furthest behind first."""
        consumers = [
            consumer
            for consumer in self.broker.consumers
            if consumer.pending or consumer.unsettled or consumer.redelivered
        ]
        return sorted(consumers, key=lambda consumer: (-consumer.pending, -consumer.redelivered, consumer.name))

    @property
    def redelivered(self) -> int:
        return sum(consumer.redelivered for consumer in self.broker.consumers)

    @property
    def outbox(self) -> int | None:
        """The number of events in all outboxes; None if no service reported."""
        depths = [row.service.outbox_depth for row in self.services if row.service and not row.silent]
        known = [depth for depth in depths if depth is not None]
        return sum(known) if known else None

    @property
    def oldest(self) -> float:
        """The age in seconds of the oldest of them."""
        ages = [row.service.outbox_oldest_seconds for row in self.services if row.service and not row.silent]
        return max((age for age in ages if age is not None), default=0.0)


async def loop_page(reads: ReadQueries, desk: BrokerAdmin, now: datetime) -> LoopPage:
    times = await reads.loop_times(now - SINCE, MOST)
    processes = await reads.processes()
    spreads = spreads_of(times)
    waterline = await known_waterline(reads)
    _, silent = await reads.nodes_shown(NodeQuery(show="silent", limit=SILENT_SHOWN), now - FRESH, waterline)
    return LoopPage(
        now=now,
        actions=len(times),
        spreads=spreads,
        picture=both(
            lambda frame: latency_chart(frame, spreads, "From sample to effect: distribution of durations"),
            height=height_of(len(spreads)),
            narrow_height=height_of(len(spreads)),
            width=HALF,
        ),
        services=service_rows(processes, sorted(service_names()), now),
        replicas=replicas_of(shard_views(processes, now)),
        broker=await _broker(desk),
        totals=await reads.totals(now - FRESH, waterline),
        silent=[node_row(node, now, waterline) for node in silent],
        limited=limited_rows(processes, now),
    )


async def _broker(desk: BrokerAdmin) -> BrokerState:
    try:
        return BrokerState(await desk.consumers(), await desk.letter_count())
    except Unavailable as error:
        return BrokerState((), 0, error.message)
