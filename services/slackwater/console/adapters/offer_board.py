"""The newest offer of every node, read from the bus once for all watchers of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from slackwater.bus.port import Bus, StreamHead
from slackwater.bus.read.stream_reader import Item, StreamEvent, StreamReader
from slackwater.console.domain.offer_table import OfferTable
from slackwater.console.ports import OfferSight
from slackwater.console.usecases.translate import offer_of
from slackwater.events.codec.body import Undecodable
from slackwater.events.node_described import NodeDescribed
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
TYPES = (ResourcesOffered, NodeDescribed)
"""One stream holds both, so that one position is enough."""
LOOK_SECONDS = 1.0
"""Interval of reading the end of the log while a watcher is connected."""
READY_SECONDS = 10.0
AGAIN_SECONDS = 1.0
QUIET_SECONDS = 5.0
_NEVER = datetime.min.replace(tzinfo=UTC)


class _BeganAnewError(Exception):
    """The log was recreated, so that the known positions are invalid."""


class OfferBoard:
    """Implements slackwater.console.ports.OfferLog. Reads while `run` runs, from the first watcher on."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self.watchers = 0
        """Number of connected watchers."""
        self._watched = asyncio.Event()
        self._change = asyncio.Event()
        self.sight: OfferSight | None = None
        self.as_of = _NEVER

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.watchers += 1
        self._watched.set()
        try:
            yield
        finally:
            self.watchers -= 1
            if self.watchers == 0:
                self._watched.clear()

    async def ready(self) -> OfferSight:
        try:
            async with asyncio.timeout(READY_SECONDS):
                while self.sight is None:
                    await self._change.wait()
        except TimeoutError:
            raise Unavailable("the offers are not loaded yet: the bus does not answer; try again") from None
        return self.sight

    async def end(self) -> StreamHead:
        return await self._bus.mark(TYPES)

    async def changed(self, leaving: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(self._change.wait()), asyncio.ensure_future(leaving.wait())]
        try:
            # a bookmark that is not due yet is checked again at the next read of the log's end
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def run(self) -> None:
        """Read until cancelled; restart after every failure."""
        while True:
            await self._watched.wait()
            try:
                await self._read()
            except* (_BeganAnewError, Unavailable) as errors:
                log.info("offers are read anew", reason=str(errors.exceptions[0]))
            await self._clock.sleep(AGAIN_SECONDS)

    async def _read(self) -> None:
        table = OfferTable()
        end = await self.end()
        stream = ResourcesOffered.STREAM
        async with self._bus.follow(TYPES, after={stream: 0}) as following, asyncio.TaskGroup() as group:
            group.create_task(self._apply_items(following, table), name="offers")
            group.create_task(self._check_end(table, end.epoch), name="end of the offers")

    async def _apply_items(self, following: StreamReader, table: OfferTable) -> None:
        while True:
            items: Sequence[Item] = await following.next()
            for item in items:
                _put(table, item)
            self._notify()

    async def _check_end(self, table: OfferTable, epoch: str) -> None:
        while True:
            before, asked_at = table.position, self._clock.now()
            end = await self.end()
            if end.epoch != epoch or end.sequence < before:
                raise _BeganAnewError(f"the log ends at {end.sequence}, {before} was read")
            await self._read_up_to(end.sequence, table)
            self.as_of = max(asked_at, self.as_of)
            if self.sight is None or self.sight.table is not table:
                self.sight = OfferSight(table, epoch)
            self._notify()
            await self._clock.sleep(LOOK_SECONDS)
            await self._watched.wait()

    async def _read_up_to(self, sequence: int, table: OfferTable) -> None:
        """Wait until the table has reached the position, or nothing arrived for a while, because the last message
        cannot be parsed.
        """
        with suppress(TimeoutError):
            while table.position < sequence:
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._change.wait()

    def _notify(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


def _put(table: OfferTable, item: Item) -> None:
    if not isinstance(item, StreamEvent) or item.sequence <= table.position:
        raise _BeganAnewError(f"{item!r} comes after position {table.position}")
    try:
        data = item.data()
    except Undecodable:
        return  # its consumers dead-letter it
    if isinstance(data, ResourcesOffered):
        table.offered(item.sequence, offer_of(item.id, data))
    elif isinstance(data, NodeDescribed):
        table.described(item.sequence, data.facts.name, data.facts.pool)
