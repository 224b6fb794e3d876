"""The store in memory: units of work, outbox and inbox with the same guarantees as in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar, cast

from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.keyed import MemoryKeyedRows, MemoryRows
from tests.support.leases import LeaseBook, MemoryLeases
from tests.support.statements import Answers, MemoryConnection

from slackwater.events.envelope import Event
from slackwater.events.serialized import written
from slackwater.model.errors import Fenced, InvalidInput, Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock, SystemClock
from slackwater.store.keyed import KeyedTable
from slackwater.store.port import Backlog, Fence, Publish, RowChange
from slackwater.store.quarantine import Quarantine

T = TypeVar("T")


class MemoryUnitOfWork:
    """Buffers changes until commit. In-memory adapters register their writes with `on_commit`."""

    def __init__(
        self,
        handled: set[tuple[str, str]],
        fence: Fence | None = None,
        tables: dict[str, MemoryRows] | None = None,
        answers: Answers | None = None,
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        self._handled = handled
        self._tables = {} if tables is None else tables
        self._answers = answers or Answers()
        self.announce = announce
        """Notifies the other replicas of the service; for `on_commit`."""
        self._changed: dict[str, dict[str, Any]] = {}
        self.held = {} if fence is None else dict(fence.held())
        self.concerned: set[int] = set()
        self.events: list[Event[Any]] = []
        self.noted: set[tuple[str, str]] = set()
        self.effects: list[Callable[[], None]] = []
        self.checks: list[Callable[[], None]] = []
        """Checks that run before the commit; an exception rolls the unit of work back."""

    @property
    def connection(self) -> AsyncConnection:
        """Executes the statements of `MemoryDatabase.answers`."""
        return cast(AsyncConnection, MemoryConnection(self, self._answers))

    async def publish(self, event: Event[Any]) -> None:
        self.events.append(event)
        self.concerns(event.data.shard_key())

    def concerns(self, *keys: str) -> None:
        self.concerned.update(map(partition_of, keys))

    def concerns_partition(self, partition: int) -> None:
        self.concerned.add(partition)

    def changes_last(self, change: RowChange) -> None:
        raise AssertionError("an in-memory unit of work has no rows: use the service's in-memory adapter")

    async def first_time(self, consumer: str, event_id: str) -> bool:
        mark = (consumer, event_id)
        if mark in self._handled or mark in self.noted:
            return False
        self.noted.add(mark)
        return True

    async def first_times(self, consumer: str, event_ids: Collection[str]) -> set[str]:
        return {event_id for event_id in event_ids if await self.first_time(consumer, event_id)}

    def keyed(self, table: KeyedTable[T], quarantine: Quarantine) -> MemoryKeyedRows[T]:
        rows = self._tables.setdefault(table.name, MemoryRows())
        return MemoryKeyedRows(self, rows, table, quarantine, self._changed.setdefault(table.name, {}))

    def on_commit(self, effect: Callable[[], None]) -> None:
        """Run the effect if the unit of work commits."""
        self.effects.append(effect)


class MemoryDatabase:
    """slackwater.store.port.Database in memory. Units of work run one at a time, as if all held the same lock.

    `published` contains every committed event in order; `forward` receives them at commit, as if a relay had run.
    `away=True` simulates a database that is down; `goes_after_commit=True` one that fails between the next commit and
    its answer.
    """

    def __init__(self, forward: Publish | None = None, *, clock: Clock | None = None) -> None:
        self.book = LeaseBook(clock or SystemClock())
        self.published: list[Event[Any]] = []
        self.tables: dict[str, MemoryRows] = {}
        """Committed keyed rows by table."""
        self.answers = Answers()
        """Answers for the SQL of adapters; empty by default."""
        self.writes = 0
        """Number of units of work with changes."""
        self.away = False
        self.goes_after_commit = False
        self._pending: list[Event[Any]] = []
        self._handled: set[tuple[str, str]] = set()
        self._forward = forward
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._relay_turn = asyncio.Lock()

    def unit_of_work(self) -> AbstractAsyncContextManager[MemoryUnitOfWork]:
        return self.unit_under(None)

    @asynccontextmanager
    async def unit_under(self, fence: Fence | None) -> AsyncIterator[MemoryUnitOfWork]:
        """A unit of work with a fence."""
        unit = MemoryUnitOfWork(self._handled, fence, self.tables, self.answers, self.announce)
        if self.away:
            raise Unavailable("the in-memory database is simulated as away")
        async with self._turn:
            yield unit
            if fence is not None:
                self._check(unit, fence)
            for check in unit.checks:
                check()
            for effect in unit.effects:
                effect()
            self.writes += bool(unit.events or unit.effects)
            self._handled |= unit.noted
            self.published += unit.events
            self._pending += unit.events
        self._wake.set()
        if self._forward is not None:
            for event in unit.events:
                await self._forward(written(event))
                self._pending.remove(event)
        if self.goes_after_commit:
            self.goes_after_commit = False
            raise Unavailable("the in-memory database is simulated as away: the result of the commit is unknown")

    def announce(self) -> None:
        """Notify every replica of a change."""
        self.book.heartbeat("")

    def rows(self, table: KeyedTable[T]) -> dict[str, T]:
        """The committed rows of a table by key; tests may change them."""
        return self.tables.setdefault(table.name, MemoryRows()).values

    def _check(self, unit: MemoryUnitOfWork, fence: Fence) -> None:
        missing = {p for p in unit.concerned if not self.book.is_owner(fence.member, p, unit.held.get(p))}
        if missing:
            fence.refused(missing)
            raise Fenced(f"partitions {sorted(missing)} are not owned by {fence.member}")

    def leases(self, member: str) -> MemoryLeases:
        return MemoryLeases(self.book, member, lambda: self.away)

    def fenced(self, fence: Fence) -> FencedMemoryDatabase:
        return FencedMemoryDatabase(self, fence)

    def reserved(self) -> MemoryDatabase:
        return self

    async def ping(self) -> bool:
        return not self.away

    def relay(self, publish: Publish) -> MemoryRelay:
        return MemoryRelay(self._pending, self._wake, self._relay_turn, publish)

    async def close(self) -> None:
        """Does nothing, because nothing is open."""


class FencedMemoryDatabase:
    """The same database with a fence."""

    def __init__(self, whole: MemoryDatabase, fence: Fence) -> None:
        self._whole = whole
        self._fence = fence

    def unit_of_work(self) -> AbstractAsyncContextManager[MemoryUnitOfWork]:
        return self._whole.unit_under(self._fence)

    async def ping(self) -> bool:
        return await self._whole.ping()

    def relay(self, publish: Publish) -> MemoryRelay:
        """Returns a relay for all partitions; relays of a database run one at a time."""
        return self._whole.relay(publish)

    def leases(self, member: str) -> MemoryLeases:
        return self._whole.leases(member)

    def fenced(self, fence: Fence) -> FencedMemoryDatabase:
        return self._whole.fenced(fence)

    def reserved(self) -> FencedMemoryDatabase:
        return self

    async def close(self) -> None:
        """Does nothing, because nothing is open."""


class MemoryRelay:
    """Publishes in order of commit. Relays of a database run one at a time."""

    def __init__(self, pending: list[Event[Any]], wake: asyncio.Event, turn: asyncio.Lock, publish: Publish) -> None:
        self._pending = pending
        self._wake = wake
        self._turn = turn
        self._publish = publish

    async def run(self) -> None:
        async with self._turn:
            while True:
                self._wake.clear()
                blocked: set[str] = set()
                for event in list(self._pending):
                    await self._publish_one(event, blocked)
                if blocked:
                    await asyncio.sleep(0.01)
                else:
                    await self._wake.wait()

    async def _publish_one(self, event: Event[Any], blocked: set[str]) -> None:
        if event.subject in blocked:
            return
        try:
            await self._publish(written(event))
        except Unavailable:
            blocked.add(event.subject)
            return
        except InvalidInput:
            pass  # the PostgreSQL relay keeps it, marked as refused; in both cases it is no longer pending
        self._pending.remove(event)

    async def backlog(self) -> Backlog:
        return Backlog(len(self._pending), 0.0)
