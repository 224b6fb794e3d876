"""Polls what no event reports: backlogs of broker and outbox, connection pools, PostgreSQL
availability.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from slackwater.bus.admin.backlogs import Backlogs
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.runtime.service import Check
from slackwater.store.engine import Connections
from slackwater.store.port import Backlog
from slackwater.telemetry.metrics import Meters

if TYPE_CHECKING:
    from fastapi import APIRouter

LOOK_SECONDS = 10.0


class WatchedBus(Protocol):
    """The part of the bus that is polled."""

    async def backlogs(self) -> Backlogs: ...


class WatchedDatabase(Protocol):
    """The part of a database that is polled."""

    async def backlog(self) -> Backlog | None: ...

    def connections(self) -> Connections: ...


class WatchMetrics:
    """Metrics of the poll."""

    def __init__(self, meters: Meters) -> None:
        self.bus_up = meters.gauge(
            "slackwater_bus_up",
            "Whether the broker reported backlogs at the last poll.",
            look="0: nothing flows; facts wait in outboxes.",
        )
        self.lag = meters.gauge(
            "slackwater_bus_lag_messages",
            "Messages not yet delivered to a consumer.",
            ["consumer"],
            look="Growth over minutes: consumer slow or stopped.",
        )
        self.unsettled = meters.gauge(
            "slackwater_bus_unsettled_messages",
            "Messages delivered and not settled.",
            ["consumer"],
            look="A plateau at max_ack_pending: the handler hangs.",
        )
        self.stored = meters.gauge(
            "slackwater_stream_stored_bytes",
            "Size of a stream.",
            ["stream"],
            look="Near slackwater_stream_limit_bytes: WINDOWS, DECISIONS refuse messages.",
        )
        self.limit = meters.gauge(
            "slackwater_stream_limit_bytes",
            "Maximum size of a stream (contracts/streams.yaml).",
            ["stream"],
            look="The sum over streams is the broker's disk.",
        )
        self.kept = meters.gauge(
            "slackwater_stream_kept_messages",
            "Messages in a stream; in DLQ: unhandled dead letters.",
            ["stream"],
            look="DLQ above 0.",
        )
        self.database_up = meters.gauge(
            "slackwater_database_up",
            "Whether PostgreSQL answered the last poll.",
            ["service"],
            look="0: batches are held, no reads served.",
        )
        self.connections = meters.gauge(
            "slackwater_database_pool_connections",
            "Connections of a service's pool (in_use, idle).",
            ["service", "state"],
            look="in_use at 6 (4 kept, 2 more): work waits.",
        )
        self.waiting = meters.gauge(
            "slackwater_outbox_waiting_events",
            "Unpublished committed events.",
            ["service"],
            look="Growth: the relay or the broker is away.",
        )
        self.age = meters.gauge(
            "slackwater_outbox_age_seconds",
            "Age of the oldest unpublished event.",
            ["service"],
            look="Over a few seconds: decisions do not reach nodes.",
        )
        self.refused = meters.gauge(
            "slackwater_outbox_refused_events",
            "Events set aside: the bus will never accept them. The newest 100 are kept.",
            ["service"],
            look="Above 0: too large, or without a subject; the row says why.",
        )


class LoopWatch:
    """slackwater.runtime.service.Service, run beside the others of a process."""

    name = "watch"

    def __init__(
        self, bus: WatchedBus, databases: Callable[[], Mapping[str, WatchedDatabase]], clock: Clock, meters: Meters
    ) -> None:
        self._bus = bus
        self._databases = databases
        self._clock = clock
        self._metrics = WatchMetrics(meters)

    async def run(self, started: Callable[[], None]) -> None:
        started()
        while True:
            await self.check()
            await self._clock.sleep(LOOK_SECONDS)

    async def checks(self) -> Sequence[Check]:
        return ()

    def routers(self) -> Sequence[APIRouter]:
        return ()

    async def check(self) -> None:
        """Poll everything once, concurrently; what does not answer is recorded as unavailable."""
        databases = self._databases()
        await asyncio.gather(self._sample_bus(), *(self._sample_database(name, one) for name, one in databases.items()))

    async def _sample_bus(self) -> None:
        metrics = self._metrics
        try:
            found = await self._bus.backlogs()
        except Unavailable:
            metrics.bus_up.set(0)
            return
        metrics.bus_up.set(1)
        for consumer, lag in found.consumers.items():
            metrics.lag.labels(consumer).set(lag.waiting)
            metrics.unsettled.labels(consumer).set(lag.unsettled)
        for stream, fill in found.streams.items():
            metrics.stored.labels(stream).set(fill.stored_bytes)
            metrics.limit.labels(stream).set(fill.limit_bytes)
            metrics.kept.labels(stream).set(fill.messages)

    async def _sample_database(self, service: str, database: WatchedDatabase) -> None:
        metrics, pool = self._metrics, database.connections()
        metrics.connections.labels(service, "in_use").set(pool.in_use)
        metrics.connections.labels(service, "idle").set(pool.idle)
        try:
            backlog = await database.backlog()
        except Unavailable:
            metrics.database_up.labels(service).set(0)
            return
        metrics.database_up.labels(service).set(1)
        if backlog is not None:
            metrics.waiting.labels(service).set(backlog.depth)
            metrics.age.labels(service).set(backlog.oldest_age_seconds)
            metrics.refused.labels(service).set(backlog.refused)
