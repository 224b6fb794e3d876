"""Polls what no event reports: backlogs of broker and outbox, PostgreSQL availability, and how far everything that has
a limit is used.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from slackwater.bus.admin.backlogs import Backlogs
from slackwater.model.errors import Unavailable
from slackwater.model.limited_resource import FillLevel, Limited, LimitedResource
from slackwater.model.time import Clock
from slackwater.runtime.limited_readings import LimitedReadings
from slackwater.runtime.process_limits import LOOK_SECONDS, process_limits
from slackwater.runtime.service import Check
from slackwater.store.engine import POOL_LIMIT, Connections
from slackwater.store.port import Backlog
from slackwater.telemetry.metrics import Meters

if TYPE_CHECKING:
    from fastapi import APIRouter

POOL_READINGS = 3
"""A pool counts as used as far as it was at each of so many readings: a burst is no shortage."""


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
            look="Near slackwater_stream_limit_bytes: see slackwater_limited_resources.",
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
            "Events that the bus will never accept.",
            ["service"],
            look="Above 0: too large, or without a subject; the row says why.",
        )


class LoopWatch:
    """slackwater.runtime.service.Service, run beside the others of a process. `folders` are those that the process or
    its embedded servers write, by the names of their disks.
    """

    name = "watch"

    def __init__(
        self,
        bus: WatchedBus,
        databases: Callable[[], Mapping[str, WatchedDatabase]],
        clock: Clock,
        meters: Meters,
        folders: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        self._bus = bus
        self._databases = databases
        self._clock = clock
        self._metrics = WatchMetrics(meters)
        self._folders = folders
        self._pools: dict[str, deque[int]] = {}
        self._limited = LimitedReadings(meters)

    async def run(self, started: Callable[[], None]) -> None:
        started()
        while True:
            await self.check()
            await self._clock.sleep(LOOK_SECONDS)

    async def checks(self) -> Sequence[Check]:
        """Returns what can be used up: a warning when nearly full, a failure when full and another replica may have
        what this one lacks.
        """
        return [Check(each.label, not each.stops_process, each.message, _warns(each)) for each in self.limited()]

    def limited(self) -> Sequence[LimitedResource]:
        """Returns the last readings of what can be used up, the fullest first."""
        return self._limited.newest()

    def routers(self) -> Sequence[APIRouter]:
        return ()

    async def check(self) -> None:
        """Poll everything once, concurrently; what does not answer is recorded as unavailable."""
        databases = self._databases()
        self._sample_pools(databases)
        self._limited.note("process", await process_limits(self._folders))
        await asyncio.gather(self._sample_bus(), *(self._sample_database(name, one) for name, one in databases.items()))

    async def _sample_bus(self) -> None:
        metrics = self._metrics
        try:
            found = await self._bus.backlogs()
        except Unavailable:
            metrics.bus_up.set(0)
            self._limited.note("broker", ())
            return
        metrics.bus_up.set(1)
        for consumer, lag in found.consumers.items():
            metrics.lag.labels(consumer).set(lag.waiting)
            metrics.unsettled.labels(consumer).set(lag.unsettled)
        for stream, fill in found.streams.items():
            metrics.stored.labels(stream).set(fill.stored_bytes)
            metrics.limit.labels(stream).set(fill.limit_bytes)
            metrics.kept.labels(stream).set(fill.messages)
        self._limited.note("broker", _limits_of(found))

    def _sample_pools(self, databases: Mapping[str, WatchedDatabase]) -> None:
        readings = []
        for service, database in databases.items():
            pool = database.connections()
            self._metrics.connections.labels(service, "in_use").set(pool.in_use)
            self._metrics.connections.labels(service, "idle").set(pool.idle)
            recent = self._pools.setdefault(service, deque(maxlen=POOL_READINGS))
            recent.append(pool.in_use + pool.waiting)
            lasting = min(recent) if len(recent) == POOL_READINGS else 0
            readings.append(LimitedResource(Limited.POOL, service, lasting, POOL_LIMIT))
        self._limited.note("pools", readings)

    async def _sample_database(self, service: str, database: WatchedDatabase) -> None:
        metrics = self._metrics
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


def _warns(limited: LimitedResource) -> bool:
    return limited.level is not FillLevel.FINE and not limited.stops_process


def _limits_of(found: Backlogs) -> Sequence[LimitedResource]:
    streams = {name: fill for name, fill in found.streams.items() if fill.must_not_fill}
    return [
        *(LimitedResource(Limited.STREAM, name, fill.stored_bytes, fill.limit_bytes) for name, fill in streams.items()),
        *(LimitedResource(Limited.STORE, name, used, limit) for name, (used, limit) in found.stores.items()),
    ]
