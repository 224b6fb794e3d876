"""Faults of the PostgreSQL in memory that have no counterpart to command in a real one, and services that run on it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from sqlalchemy import text
from tests.support.clock import FakeClock
from tests.support.postgres_twin.database import twin_database
from tests.support.postgres_twin.driver import Connection
from tests.support.postgres_twin.engine import TwinPool
from tests.support.postgres_twin.migrated import migrated
from tests.support.postgres_twin.server import Server
from tests.support.reports import described, pod_usage, report
from tests.support.scene import Scene

from slackwater.events.envelope import event_of
from slackwater.model.errors import Unavailable
from slackwater.runtime.service import Service
from slackwater.store.engine import PostgresDatabase
from slackwater.store.migrations import Schema

T = TypeVar("T")
CHANGE = text("INSERT INTO refusals VALUES ('n', :reason, 1, now()) ON CONFLICT (node, reason) DO UPDATE SET count = 2")
LOCK = text("SELECT count FROM refusals WHERE node = 'n' FOR UPDATE")


class CutLink:
    """Loses the request, or the answer, of the next operation when told to."""

    def __init__(self) -> None:
        self.loses = ""

    async def call(self, operation: Callable[[], T]) -> T:
        loses, self.loses = self.loses, ""
        if loses == "request":
            raise Unavailable("the request is lost")
        result = operation()
        if loses == "answer":
            raise Unavailable("the answer is lost")
        return result

    def deliver(self, receive: Callable[[], None]) -> None:
        receive()


class Place:
    """A server on a clock that the test advances, and the processes beside it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = Server(self.clock, self.later)
        self.server.create("ingestion", migrated(Schema.of("ingestion")))
        self.link = CutLink()
        self._timers: set[asyncio.Task[None]] = set()

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        async def wait() -> None:
            await self.clock.sleep(seconds)
            action()

        self._timers.add(asyncio.ensure_future(wait()))

    def process(self, name: str) -> PostgresDatabase:
        return twin_database(self.server, "ingestion", self.clock, link=self.link, process=name)

    async def end(self) -> None:
        for timer in self._timers:
            timer.cancel()
        await asyncio.gather(*self._timers, return_exceptions=True)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    found = Place()
    yield found
    await found.end()


async def write(database: PostgresDatabase, reason: str = "a") -> None:
    async with database.unit_of_work() as unit:
        await unit.connection.execute(CHANGE, {"reason": reason})


async def stored(database: PostgresDatabase) -> int:
    async with database.unit_of_work() as unit:
        return len((await unit.connection.execute(text("SELECT node FROM refusals"))).all())


async def test_a_crashed_process_holds_its_locks_until_the_server_notices(place: Place) -> None:
    first, second = place.process("first"), place.process("second")
    await write(first)
    crashed = first.unit_of_work()
    unit = await crashed.__aenter__()
    await unit.connection.execute(CHANGE, {"reason": "lost"})
    await unit.connection.execute(LOCK)
    place.server.abandon_process("first", after_seconds=3)
    waiting = asyncio.create_task(_locked(second))
    await place.clock.advance(2.9)
    assert not waiting.done()
    await place.clock.advance(0.2)
    assert await waiting == 1
    assert await stored(second) == 1


async def _locked(database: PostgresDatabase) -> int:
    async with database.unit_of_work() as unit:
        return len((await unit.connection.execute(LOCK)).all())


@pytest.mark.parametrize(("loses", "applied"), [("request", 0), ("answer", 1)])
async def test_a_caller_cannot_tell_a_lost_commit_from_a_lost_answer(place: Place, loses: str, applied: int) -> None:
    database = place.process("one")

    async def write_and_lose() -> None:
        async with database.unit_of_work() as unit:
            await unit.connection.execute(CHANGE, {"reason": "a"})
            place.link.loses = loses

    with pytest.raises(Unavailable):
        await write_and_lose()
    await place.clock.advance(place.server.notice_seconds)
    assert await stored(database) == applied


async def test_a_transaction_that_stands_still_is_ended(place: Place) -> None:
    first, second = place.process("first"), place.process("second")
    with pytest.raises(Unavailable):  # noqa: PT012 - the unit of work is the statement
        async with first.unit_of_work() as unit:
            await unit.connection.execute(CHANGE, {"reason": "a"})
            await place.clock.advance(6)
    assert await stored(second) == 0


async def test_a_statement_that_waits_too_long_is_ended(place: Place) -> None:
    first, second = place.process("first"), place.process("second")
    await write(first)
    async with first.unit_of_work() as unit:
        await unit.connection.execute(LOCK)
        waiting = asyncio.create_task(_locked(second))
        for _ in range(11):
            await place.clock.advance(3)
            await unit.connection.execute(LOCK)
    with pytest.raises(Unavailable, match="statement timeout"):
        await waiting


async def test_a_pool_that_stays_used_up_is_an_outage(place: Place) -> None:
    database = place.process("one")
    async with AsyncExitStack() as stack:
        for _ in range(6):
            await stack.enter_async_context(database.unit_of_work())
        place.server.most_sessions = 6
        with pytest.raises(Unavailable):
            await stored(place.process("two"))


async def test_a_wait_for_a_session_that_is_cancelled_as_one_comes_back_leaves_it_to_the_next() -> None:
    async def dial() -> Connection:
        return cast(Connection, SimpleNamespace(is_closed=lambda: False))

    pool = TwinPool(dial, FakeClock(), size=1, seconds=10.0)
    used = await pool.acquire()
    stopped, next_one = asyncio.create_task(pool.acquire()), asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    pool.release(used)
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    assert await next_one is used


async def test_a_server_that_is_away_comes_back_with_what_was_committed(place: Place) -> None:
    database = place.process("one")
    await write(database)
    place.server.stop()
    assert not await database.ping()
    with pytest.raises(Unavailable):
        await write(database)
    place.server.start()
    assert await stored(database) == 1


async def test_a_slow_statement_starts_late(place: Place) -> None:
    database = place.process("one")
    place.server.slow_seconds = 2.0
    waiting = asyncio.create_task(stored(database))
    await place.clock.advance(1.9)
    assert not waiting.done()
    place.server.slow_seconds = 0.0
    await place.clock.advance(0.2)
    assert await waiting == 0


class TwinScene(Scene):
    """A scene whose services run their own SQL on one PostgreSQL in memory."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.clock)
        self._place = place
        self.opened: dict[str, PostgresDatabase] = {}

    def database(self, service: str) -> Any:
        if service not in self.opened:
            self._place.server.create(service, migrated(Schema.of(service)))
            self.opened[service] = twin_database(self._place.server, service, self.clock)
        return self.opened[service]


def _built(service: str) -> tuple[Callable[..., Service], Any]:
    module = importlib.import_module(f"slackwater.{service}.service")
    settings = importlib.import_module(f"slackwater.{service}.settings")
    return module.build, getattr(settings, f"{service.capitalize()}Settings")()


async def test_the_services_run_their_whole_loop_on_it(place: Place) -> None:
    scene = TwinScene(place)
    async with AsyncExitStack() as stack:
        for service in ("ingestion", "prediction", "colocation", "ensurance"):
            await stack.enter_async_context(scene.running(*_built(service)))
        await scene.bus.publish(event_of(described("n", place.clock.now()), source="n", time=place.clock.now()))
        for number in range(1, 40):
            at = place.clock.now() + timedelta(seconds=2.5)
            usage = report("n", number, at, pods=[pod_usage("p")])
            await scene.bus.publish(event_of(usage, source="n", time=at))
            await scene.advance(5)
        types = {event.type.split(".", 2)[2] for event in scene.bus.published}
    assert {"usage.windowed.v1", "peak.predicted.v1", "resources.offered.v1", "intent.declared.v1"} <= types
