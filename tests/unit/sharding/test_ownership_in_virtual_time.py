"""Heartbeats, hand-overs and losses, by a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.support.clock import FakeClock
from tests.support.leases import MemoryLeases
from tests.support.store import MemoryDatabase

from slackwater.model.errors import Fenced, Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.runtime.ownership import Lease
from slackwater.runtime.partition_sharding import Ownership

ALL = set(range(8))


class Silent:
    """A meter that counts."""

    def __init__(self) -> None:
        self.fences = 0
        self.unowned = 0

    def held(self, leases: Mapping[int, int], unowned: int, members: int) -> None:
        self.unowned = unowned

    def moved(self, kind: str, count: int) -> None:
        """Not looked at."""

    def fenced(self) -> None:
        self.fences += 1


class Notes:
    """A holder that records its calls, and can be slow or fail."""

    def __init__(self) -> None:
        self.working: set[int] = set()
        self.given: list[int] = []
        self.dropped: list[int] = []
        self.fails = False

    async def acquire(self, leases: Sequence[Lease]) -> None:
        if self.fails:
            raise Unavailable("cannot be read now")
        self.working.update(lease.partition for lease in leases)

    async def release(self, leases: Sequence[Lease]) -> None:
        self.given.extend(lease.partition for lease in leases)

    def drop(self, partitions: Collection[int]) -> None:
        self.dropped.extend(self.working & set(partitions))
        self.working.difference_update(partitions)


class Replica:
    """One process."""

    def __init__(self, name: str, database: MemoryDatabase, clock: FakeClock) -> None:
        self.meter = Silent()
        self.store = MemoryLeases(database.book, name, lambda: database.away)
        self.ownership = Ownership(self.store, "tests", clock, self.meter)
        self.notes = Notes()
        self.stopped = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Replica]:
        async with self.ownership.owning(self.notes):
            yield self

    @property
    def held(self) -> set[int]:
        return set(self.ownership.held())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def database(clock: FakeClock) -> MemoryDatabase:
    return MemoryDatabase(clock=clock)


async def test_one_alone_owns_everything_at_once(database: MemoryDatabase, clock: FakeClock) -> None:
    async with Replica("a/1", database, clock).running() as a:
        assert a.held == a.notes.working == ALL
    assert sorted(a.notes.given) == sorted(ALL)
    async with Replica("b/1", database, clock).running() as b:  # after a clean stop without any waiting
        assert b.held == ALL


async def test_a_join_is_handed_half_in_good_order(database: MemoryDatabase, clock: FakeClock) -> None:
    async with Replica("a/1", database, clock).running() as a, Replica("b/1", database, clock).running() as b:
        await clock.advance(2)
        assert len(a.held) == len(b.held) == 4
        assert a.held | b.held == ALL
        assert set(a.notes.given) == b.held
        assert a.notes.working == a.held


async def test_the_share_of_a_dead_replica_is_taken_within_ten_seconds(
    database: MemoryDatabase, clock: FakeClock
) -> None:
    async with Replica("a/1", database, clock).running() as a:
        b = Replica("b/1", database, clock)
        await b.store.beat(5)
        await b.store.claim([])
        await clock.advance(2)
        mine = await b.store.claim(sorted(ALL - a.held))
        assert len(mine) == 4
        begun = clock.monotonic()
        while a.held != ALL:
            await clock.advance(0.5)
        assert clock.monotonic() - begun <= 10


async def test_a_replica_suspended_past_its_lease_stops_acting_and_its_writes_are_refused(
    database: MemoryDatabase, clock: FakeClock
) -> None:
    sleeper = Replica("a/1", database, clock)
    await sleeper.store.beat(5)
    leases = await sleeper.store.claim(sorted(ALL))
    sleeper.ownership._held.update({lease.partition: lease.epoch for lease in leases})  # stopped right after its claim
    sleeper.ownership._holder = sleeper.notes
    sleeper.notes.working = set(ALL)
    await clock.advance(8)
    async with Replica("b/1", database, clock).running() as b:
        await clock.advance(2)
        assert b.held == ALL
        assert not sleeper.ownership.holds(0)
        with pytest.raises(Fenced):
            async with database.fenced(sleeper.ownership).unit_of_work() as unit:
                unit.concerns("some-node")
        assert sleeper.meter.fences == 1
        assert partition_of("some-node") not in sleeper.held
        assert sleeper.notes.dropped == [partition_of("some-node")]
        async with database.fenced(b.ownership).unit_of_work() as unit:
            unit.concerns("some-node")


async def test_a_lease_that_was_lost_and_won_again_does_not_revive_a_transaction_of_before(
    database: MemoryDatabase, clock: FakeClock
) -> None:
    async with Replica("a/1", database, clock).running() as a:
        node, partition = "some-node", partition_of("some-node")
        with pytest.raises(Fenced):  # noqa: PT012 - the commit raises
            async with database.fenced(a.ownership).unit_of_work() as unit:
                unit.concerns(node)
                row = database.book.leases[partition]
                again = type(row)(partition, "a/1", row.epoch + 2)  # another had it in between
                database.book.leases[partition] = again
                a.ownership._held[partition] = again.epoch


async def test_an_outage_of_the_database_moves_nothing(database: MemoryDatabase, clock: FakeClock) -> None:
    async with Replica("a/1", database, clock).running() as a, Replica("b/1", database, clock).running() as b:
        await clock.advance(3)
        before = a.held, b.held
        a.notes.dropped.clear()  # what it has handed over
        database.away = True
        await clock.advance(60)
        assert a.ownership.working() == frozenset()
        database.away = False
        await clock.advance(5)
        assert (a.held, b.held) == before
        assert a.ownership.working() == a.held
        assert a.notes.dropped == []


async def test_what_cannot_be_taken_up_is_given_back_and_tried_again(
    database: MemoryDatabase, clock: FakeClock
) -> None:
    a = Replica("a/1", database, clock)
    a.notes.fails = True
    async with a.running():
        assert a.held == set()
        a.notes.fails = False
        await clock.advance(2)
        assert a.held == a.notes.working == ALL


async def test_a_hand_over_that_does_not_end_is_ended(database: MemoryDatabase, clock: FakeClock) -> None:
    a = Replica("a/1", database, clock)
    a.ownership._timing = type(a.ownership._timing)(hand_over=0.01)

    async def never(_: Sequence[Lease]) -> None:
        await asyncio.Event().wait()

    async with a.running():
        a.notes.give = never  # type: ignore[method-assign] # a holder that hangs
        await a.ownership._release([Lease(0, a.ownership.held()[0])])
        assert 0 not in a.held
        assert a.notes.dropped == [0]
