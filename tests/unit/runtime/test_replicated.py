"""The skeleton of services: order at start and stop, loss of partitions, outages, failures; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock
from tests.support.scene import Scene
from tests.support.windows import described

from slackwater.bus.consume.handlers import Consumer, all_or_split
from slackwater.bus.port import Received
from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.model.errors import Conflict, Misconfigured, Unavailable
from slackwater.model.identifiers import PARTITIONS
from slackwater.runtime.loops import RETRY_SECONDS, Follow, Repeat
from slackwater.runtime.ownership import Lease, Timing
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService

NAME, CONSUMER = "colocation", "colocation-node-described"


@dataclass
class Site:
    """One broker and one database for all replicas."""

    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.broker = MemoryBroker(clock=self.clock)
        self.database = Scene(self.clock).database(NAME)

    def platform(self, member: str) -> Platform:
        return Platform(MemoryBus(self.broker), self.clock, lambda _: self.database, Path(), f"{member}/1")

    async def describe(self, *nodes: str) -> None:
        bus = MemoryBus(self.broker)
        for node in nodes:
            facts = described(node).data
            await bus.publish(event_of(facts, source="agent", time=self.clock.now()))
        await self.clock.advance(0.01)


class State:
    """Notes what happens, in order."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.partitions: set[int] = set()

    async def acquire(self, leases: Sequence[Lease]) -> None:
        self.log.append("take")
        self.partitions |= {lease.partition for lease in leases}

    async def release(self, leases: Sequence[Lease]) -> None:
        self.log.append("give")

    def drop(self, partitions: Collection[int]) -> None:
        self.partitions -= set(partitions)


class Replicated:
    """A service whose handler waits while `busy` is set."""

    def __init__(self, site: Site, member: str, *, sharded: bool = True, **changes: Any) -> None:
        self.log: list[str] = []
        self.handled: list[str] = []
        self.free = asyncio.Event()
        self.free.set()
        self.state = State(self.log)
        replica = Replica(NAME, site.platform(member), sharded=sharded)
        self.service = ReplicatedService(
            replica,
            **{
                "load": [self.note("load")],
                "state": self.state if sharded else None,
                "consumers": [Consumer(NodeDescribed, CONSUMER, all_or_split(self.handle))],
                "loops": {"loop": self.loop},
                "leaving": lambda: self.log.append("leaving"),
                "close": self.note("close"),
                **changes,
            },
        )

    def note(self, word: str) -> Callable[[], Awaitable[None]]:
        async def note() -> None:
            self.log.append(word)

        return note

    async def handle(self, batch: Sequence[Received[NodeDescribed]]) -> None:
        self.log.append("handle")
        await self.free.wait()
        self.handled += [received.subject_key for received in batch]
        self.log.append("handled")

    async def loop(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("loop ended")


@asynccontextmanager
async def running(site: Site, one: Replicated) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(one.service.run(lambda: one.log.append("started")))
    await site.clock.advance(0.1)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_it_loads_takes_and_consumes_and_stops_the_other_way_round() -> None:
    site = Site()
    one = Replicated(site, "a")
    await site.describe("n1")
    async with running(site, one) as task:
        await site.clock.advance(1)
        assert one.log.index("load") < one.log.index("take") < one.log.index("handle")
        assert one.log.index("take") < one.log.index("started")
        assert one.handled == ["n1"]
        one.free.clear()
        await site.describe("n2")
        task.cancel()
        await site.clock.advance(0.1)
        assert one.log[-2:] == ["handle", "leaving"]  # what is in hand is settled first
        one.free.set()
        for _ in range(5):
            await site.clock.advance(0.1)
        assert task.cancelled()
    assert one.log[-4:] == ["handled", "give", "loop ended", "close"]
    assert one.handled == ["n1", "n2"]
    assert {row.owner for row in site.database.book.leases.values()} == {None}


async def test_two_replicas_share_the_partitions_and_each_node_has_one_owner() -> None:
    site = Site()
    one, two = Replicated(site, "a"), Replicated(site, "b")
    async with running(site, one), running(site, two):
        for _ in range(5):
            await site.clock.advance(1)
        assert one.state.partitions | two.state.partitions == set(range(PARTITIONS))
        assert not one.state.partitions & two.state.partitions
        await site.describe(*(f"n{number}" for number in range(40)))
        await site.clock.advance(1)
        assert sorted(one.handled + two.handled) == sorted(f"n{number}" for number in range(40))
        assert one.handled
        assert two.handled
        standing = one.service.standing()
        assert standing is not None
        assert standing.members == 2


async def test_a_replica_that_lost_its_partitions_handles_nothing_for_them() -> None:
    site = Site()
    one = Replicated(site, "a")
    async with running(site, one):
        book = site.database.book
        for partition, row in list(book.leases.items()):
            book.leases[partition] = type(row)(partition, "other/1", row.epoch + 1, site.clock.now())
        book.members["other/1"] = site.clock.now().replace(year=2100)
        await site.clock.advance(1.5)
        assert one.state.partitions == set()
        await site.describe("n1")
        await site.clock.advance(3)
        assert one.handled == []


async def test_readiness_says_what_is_away_and_the_service_goes_on_after_it() -> None:
    site = Site()
    one = Replicated(site, "a")
    async with running(site, one) as task:
        names = [check.name for check in await one.service.checks()]
        kinds = ("clustercolocationprofiles", "colocationstrategies")
        parts = ("bus", "database", *kinds, "quarantine", "shards")
        assert names == [f"{NAME}-{part}" for part in parts], "a kind that no composition root wires is served"
        site.database.away = True
        await site.clock.advance(Timing().ttl + 1)
        away = {check.name for check in await one.service.checks() if not check.ok}
        assert away == {f"{NAME}-database", f"{NAME}-shards"}
        await site.describe("n1")
        assert one.handled == []  # without a heartbeat nothing is ours for certain
        site.database.away = False
        for _ in range(4):
            await site.clock.advance(1)
        assert all(check.ok for check in await one.service.checks())
        assert one.handled == ["n1"]
        assert not task.done()


async def test_without_partitions_the_replicas_share_each_consumer() -> None:
    site = Site()
    handled: list[str] = []

    async def note(batch: Sequence[Received[NodeDescribed]]) -> None:
        handled.extend(received.subject_key for received in batch)

    plain = Consumer(NodeDescribed, "console-node-described", all_or_split(note))
    one = Replicated(site, "a", sharded=False, consumers=[plain])
    two = Replicated(site, "b", sharded=False, consumers=[plain])
    async with running(site, one), running(site, two):
        await site.describe("n1", "n2", "n3")
        await site.clock.advance(1)
        assert sorted(handled) == ["n1", "n2", "n3"]
        assert one.service.standing() is None
        assert f"{NAME}-shards" not in [check.name for check in await one.service.checks()]


@pytest.mark.parametrize("error", [Unavailable("no database"), Misconfigured("no such model"), ValueError("defect")])
async def test_a_loop_that_fails_ends_the_service_with_that_error(error: Exception) -> None:
    site = Site()

    async def failing() -> None:
        raise error

    one = Replicated(site, "a", loops={"failing": failing})
    async with running(site, one) as task:
        await site.clock.advance(0.1)
        assert task.exception() is error
    assert one.log[-1] == "close"


async def test_a_database_that_is_away_at_the_start_is_an_outage_and_no_group() -> None:
    site = Site()
    site.database.away = True
    one = Replicated(site, "a")
    async with running(site, one) as task:
        assert isinstance(task.exception(), Unavailable)
    assert "started" not in one.log


async def test_repeated_work_goes_on_after_outages_and_ends_with_a_defect() -> None:
    clock, begun, interrupted = FakeClock(), list[float](), list[float]()
    outcomes: list[Exception | None] = [None, Unavailable("away"), Conflict("lost"), None, ValueError("defect")]

    async def work() -> None:
        begun.append(clock.monotonic())
        if (error := outcomes[len(begun) - 1]) is not None:
            raise error

    repeat = Repeat(
        work=work,
        clock=clock,
        seconds=10,
        missed="work is late",
        retry_seconds=2,
        interrupted=lambda: interrupted.append(clock.monotonic()),
    )
    task = asyncio.create_task(repeat())
    await clock.advance(60)
    assert begun == [0, 10, 12, 14, 24]
    assert interrupted == [10, 12]
    assert isinstance(task.exception(), ValueError)


async def test_repeated_work_may_begin_with_a_pause_and_say_how_long_it_is() -> None:
    clock, begun, pauses = FakeClock(), list[float](), iter((5.0, 1.0, 100.0))

    async def work() -> None:
        begun.append(clock.monotonic())

    task = asyncio.create_task(
        Repeat(work=work, clock=clock, seconds=lambda: next(pauses), missed="late", pause_first=True)()
    )
    await clock.advance(50)
    assert begun == [5, 6]
    task.cancel()


async def test_a_change_is_followed_until_it_could_be() -> None:
    clock, begun, changed = FakeClock(), list[float](), asyncio.Event()

    async def work() -> None:
        begun.append(clock.monotonic())
        if len(begun) < 3:
            raise Unavailable("away")

    task = asyncio.create_task(Follow(work=work, clock=clock, changed=changed, missed="late")())
    await clock.advance(10)
    assert begun == []
    changed.set()
    await clock.advance(30)
    assert begun == [10, 10 + RETRY_SECONDS, 10 + 2 * RETRY_SECONDS]
    task.cancel()
