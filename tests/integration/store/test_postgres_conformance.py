"""What Slackwater relies on in PostgreSQL, held by the server in memory and by the real one alike.

A behaviour that the server in memory lacks fails here; so does one that PostgreSQL does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import asyncpg
import pytest
from probe_service import PROBE, Broker, eventually, liveness, running
from server_under_test import RealUnderTest, ServerUnderTest, TwinUnderTest
from sqlalchemy import text
from tests.support.postgres_server import FreshDatabase

from slackwater.events.serialized import type_of
from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.identifiers import new_id
from slackwater.store.outbox_rows import headers_of

ADD = "UPDATE facts SET value = value + 1 WHERE name = $1"
READ = "SELECT value FROM facts WHERE name = 'a'"
PUT = "INSERT INTO facts VALUES ($1, $2)"
LOCK = "SELECT value FROM facts WHERE name = $1 FOR UPDATE"


class Undone(Exception):
    """Rolls a transaction back."""


@pytest.fixture(params=["twin", "postgres"])
async def server(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[ServerUnderTest]:
    under_test: ServerUnderTest
    if request.param == "twin":
        under_test = TwinUnderTest.begin()
    else:
        under_test = RealUnderTest.at((await fresh_database([PROBE]))["probe"])
    first = await under_test.dial()
    await first.execute("INSERT INTO facts SELECT given.name, 1 FROM unnest(ARRAY['a', 'b']) AS given(name)")
    yield under_test
    await under_test.close()


async def two(server: ServerUnderTest) -> tuple[Any, Any]:
    return await server.dial(), await server.dial()


async def test_a_transaction_reads_what_is_committed_at_each_statement(server: ServerUnderTest) -> None:
    one, other = await two(server)
    async with other.transaction():
        async with one.transaction():
            await one.execute(ADD, "a")
            assert await one.fetchval(READ) == 2
            assert await other.fetchval(READ) == 1
        assert await other.fetchval(READ) == 2


async def test_a_change_waits_for_the_other_and_adds_to_it(server: ServerUnderTest) -> None:
    one, other = await two(server)
    async with one.transaction():
        await one.execute(ADD, "a")
        waiting = asyncio.create_task(other.execute(ADD, "a"))
        await server.until_waiting()
    assert await waiting == "UPDATE 1"
    assert await one.fetchval(READ) == 3


async def test_a_read_without_a_lock_loses_the_others_update(server: ServerUnderTest) -> None:
    one, other = await two(server)
    async with other.transaction():
        seen = await other.fetchval(READ)
        await one.execute(ADD, "a")
        await other.execute("UPDATE facts SET value = $1 + 1 WHERE name = 'a'", seen)
    assert await one.fetchval(READ) == 2


async def test_a_change_that_waited_checks_its_condition_again(server: ServerUnderTest) -> None:
    one, other = await two(server)
    async with one.transaction():
        await one.execute(ADD, "a")
        waiting = asyncio.create_task(other.execute("UPDATE facts SET value = 7 WHERE name = 'a' AND value = 1"))
        await server.until_waiting()
    assert await waiting == "UPDATE 0"


async def test_a_change_that_waited_sees_other_rows_as_when_it_began(server: ServerUnderTest) -> None:
    one, other = await two(server)
    counted = "UPDATE facts SET value = 10 * (SELECT count(*) FROM facts) + value WHERE name = 'a'"
    async with one.transaction():
        await one.execute(ADD, "a")
        await one.execute(PUT, "c", 1)
        waiting = asyncio.create_task(other.execute(counted))
        await server.until_waiting()
    await waiting
    assert await one.fetchval(READ) == 22


async def test_a_locked_row_is_read_as_the_other_left_it(server: ServerUnderTest) -> None:
    one, other = await two(server)
    async with one.transaction():
        await one.execute(ADD, "a")
        waiting = asyncio.create_task(other.fetchval(LOCK, "a"))
        await server.until_waiting()
    assert await waiting == 2


async def test_a_row_that_was_deleted_meanwhile_is_not_locked(server: ServerUnderTest) -> None:
    one, other = await two(server)
    async with one.transaction():
        await one.execute("DELETE FROM facts WHERE name = 'a'")
        waiting = asyncio.create_task(other.fetch(LOCK, "a"))
        await server.until_waiting()
    assert await waiting == []


async def test_a_rollback_lets_the_other_go_on_as_if_nothing_had_been(server: ServerUnderTest) -> None:
    one, other = await two(server)
    with pytest.raises(RuntimeError, match="on purpose"):  # noqa: PT012 - the unit of work is the statement
        async with one.transaction():
            await one.execute(ADD, "a")
            waiting = asyncio.create_task(other.execute("UPDATE facts SET value = 7 WHERE name = 'a' AND value = 1"))
            await server.until_waiting()
            raise RuntimeError("on purpose")
    assert await waiting == "UPDATE 1"


async def test_shared_locks_stand_beside_each_other_and_hold_a_writer_back(server: ServerUnderTest) -> None:
    one, other = await two(server)
    writer = await server.dial()
    shared = "SELECT value FROM facts WHERE name = 'a' FOR SHARE"
    async with one.transaction():
        async with other.transaction():
            assert await one.fetchval(shared) == await other.fetchval(shared) == 1
            waiting = asyncio.create_task(writer.execute(ADD, "a"))
            await server.until_waiting()
        await server.until_waiting()
    assert await waiting == "UPDATE 1"


async def test_locked_rows_are_skipped_on_demand(server: ServerUnderTest) -> None:
    one, other = await two(server)
    async with one.transaction():
        await one.fetch(LOCK, "a")
        rows = await other.fetch("SELECT name FROM facts ORDER BY name FOR UPDATE SKIP LOCKED")
        assert [row["name"] for row in rows] == ["b"]


async def test_of_a_deadlock_the_one_that_waited_longest_is_ended(server: ServerUnderTest) -> None:
    one, other = await two(server)

    async def second() -> str:
        async with other.transaction():
            await other.execute(ADD, "b")
            started.set()
            await go_on.wait()
            return str(await other.execute(ADD, "a"))

    started, go_on = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(second())
    await started.wait()
    with pytest.raises(asyncpg.DeadlockDetectedError):  # noqa: PT012 - the unit of work is the statement
        async with one.transaction():
            await one.execute(ADD, "a")
            first = asyncio.create_task(one.execute(ADD, "b"))
            await server.until_waiting()
            go_on.set()
            await first
    assert await task == "UPDATE 1"
    assert await one.fetchval("SELECT sum(value)::int FROM facts") == 4


@pytest.mark.parametrize("commits", [True, False])
async def test_the_second_of_one_key_waits_for_the_end_of_the_first(server: ServerUnderTest, commits: bool) -> None:
    one, other = await two(server)
    with suppress(Undone):
        async with one.transaction():
            await one.execute(PUT, "c", 1)
            waiting = asyncio.create_task(other.execute(PUT, "c", 2))
            await server.until_waiting()
            if not commits:
                raise Undone
    if commits:
        with pytest.raises(asyncpg.UniqueViolationError):
            await waiting
    else:
        assert await waiting == "INSERT 0 1"


async def test_an_upsert_changes_the_row_that_it_waited_for(server: ServerUnderTest) -> None:
    one, other = await two(server)
    upsert = f"{PUT} ON CONFLICT (name) DO UPDATE SET value = facts.value + excluded.value RETURNING value"
    async with one.transaction():
        await one.execute(PUT, "c", 1)
        waiting = asyncio.create_task(other.fetchval(upsert, "c", 5))
        await server.until_waiting()
    assert await waiting == 6
    async with one.transaction():
        await one.execute(PUT, "d", 1)
        nothing = asyncio.create_task(other.execute(f"{PUT} ON CONFLICT DO NOTHING", "d", 5))
        await server.until_waiting()
    assert await nothing == "INSERT 0 0"


async def test_one_statement_may_not_upsert_a_row_twice(server: ServerUnderTest) -> None:
    one = await server.dial()
    twice = (
        "INSERT INTO facts SELECT given.name, 1 FROM unnest(ARRAY['c', 'c']) AS given(name)"
        " ON CONFLICT (name) DO UPDATE SET value = 2"
    )
    with pytest.raises(asyncpg.CardinalityViolationError):
        await one.execute(twice)
    assert await one.fetchval("SELECT count(*) FROM facts") == 2


async def test_a_failure_ends_the_transaction_and_its_locks_at_once(server: ServerUnderTest) -> None:
    one, other = await two(server)
    with suppress(Undone):
        async with one.transaction():
            await one.execute(ADD, "a")
            with pytest.raises(asyncpg.UniqueViolationError):
                await one.execute(PUT, "b", 1)
            assert await other.execute(ADD, "a") == "UPDATE 1"
            with pytest.raises(asyncpg.InFailedSQLTransactionError):
                await one.execute("SELECT 1")
            raise Undone
    assert await one.fetchval(READ) == 2


async def test_a_statement_sees_none_of_its_own_changes(server: ServerUnderTest) -> None:
    one = await server.dial()
    both = "WITH gone AS (DELETE FROM facts WHERE name = 'a' RETURNING name) SELECT count(*) FROM facts"
    assert await one.fetchval(both) == 2
    assert await one.fetchval("SELECT count(*) FROM facts") == 1


async def test_positions_are_drawn_before_the_commit_and_not_given_back(server: ServerUnderTest) -> None:
    one, other = await two(server)
    put = "INSERT INTO outbox (id, type, subject, headers, payload) VALUES ($1, '', '', '', '') RETURNING position"
    async with one.transaction():
        first = await one.fetchval(put, new_id())
        second = await other.fetchval(put, new_id())
        assert [row["position"] for row in await other.fetch("SELECT position FROM outbox")] == [second]
    with suppress(Undone):
        async with one.transaction():
            await one.fetchval(put, new_id())
            raise Undone
    fourth = await one.fetchval(put, new_id())
    assert [second - first, fourth - first] == [1, 3]


async def test_notices_arrive_after_the_commit_and_equal_ones_once(server: ServerUnderTest) -> None:
    one, other = await two(server)
    heard: list[object] = []
    await other.add_listener("news", lambda *notice: heard.append(notice[3]))
    notify = "SELECT pg_notify('news', $1)"
    with suppress(Undone):
        async with one.transaction():
            await one.execute(notify, "undone")
            raise Undone
    async with one.transaction():
        for payload in ("1", "2", "1"):
            await one.execute(notify, payload)
        await other.execute("SELECT 1")
        assert heard == []
    await one.execute(notify, "3")
    await eventually(lambda: "3" in heard)
    assert heard == ["1", "2", "3"]


async def test_an_advisory_lock_is_the_sessions_until_it_ends(server: ServerUnderTest) -> None:
    one, other = await two(server)
    take = "SELECT pg_try_advisory_lock($1)"
    assert await one.fetchval(take, 7)
    assert await one.fetchval(take, 7)
    assert not await other.fetchval(take, 7)
    one.terminate()
    while not await other.fetchval(take, 7):
        await asyncio.sleep(0.005)


async def test_an_advisory_lock_of_a_transaction_holds_the_other_back(server: ServerUnderTest) -> None:
    one, other = await two(server)
    take = "SELECT pg_advisory_xact_lock($1)"

    async def after() -> int:
        async with other.transaction():
            await other.execute(take, 7)
            return int(await other.fetchval(READ))

    async with one.transaction():
        await one.execute(take, 7)
        waiting = asyncio.create_task(after())
        await server.until_waiting()
        await one.execute(ADD, "a")
    assert await waiting == 2


async def test_a_locked_table_waits_for_writers_and_holds_no_reader_back(server: ServerUnderTest) -> None:
    one, other = await two(server)
    reader = await server.dial()

    async def lock() -> int:
        async with other.transaction():
            await other.execute("LOCK TABLE facts IN SHARE ROW EXCLUSIVE MODE")
            return int(await other.fetchval(READ))

    async with one.transaction():
        await one.execute(ADD, "a")
        waiting = asyncio.create_task(lock())
        await server.until_waiting()
        assert await reader.fetchval(READ) == 1
    assert await waiting == 2


async def test_the_end_of_a_session_undoes_its_transaction_and_frees_its_locks(server: ServerUnderTest) -> None:
    one, other = await two(server)
    begun = one.transaction()
    await begun.__aenter__()
    await one.execute(ADD, "a")
    waiting = asyncio.create_task(other.fetchval(LOCK, "a"))
    await server.until_waiting()
    one.terminate()
    assert await waiting == 1


async def test_after_all_sessions_have_ended_committed_rows_are_there_and_the_pool_works(
    server: ServerUnderTest,
) -> None:
    database = server.database
    with pytest.raises(Unavailable):  # noqa: PT012 - the unit of work is the statement
        async with database.unit_of_work() as unit:
            await unit.connection.execute(text("UPDATE facts SET value = 5 WHERE name = 'a'"))
            await unit.publish(liveness("a"))
            await server.end_sessions()
    one = await server.dial()
    assert await one.fetchval(READ) == 1
    async with database.unit_of_work() as unit:
        assert (await unit.connection.execute(text(READ))).scalar() == 1


async def test_a_commit_without_an_answer_is_applied_and_an_outage_for_its_caller(server: ServerUnderTest) -> None:
    async with server.lost_answer() as database:
        with pytest.raises(Unavailable):  # noqa: PT012 - the unit of work is the statement
            async with database.unit_of_work() as unit:
                await unit.connection.execute(text("UPDATE facts SET value = 5 WHERE name = 'a'"))
                await unit.publish(liveness("a"))
    async with server.database.unit_of_work() as unit:
        assert (await unit.connection.execute(text(READ))).scalar() == 5
        assert (await unit.connection.execute(text("SELECT count(*) FROM outbox"))).scalar() == 1


async def test_a_server_that_takes_no_writes_refuses_them_and_answers_reads(server: ServerUnderTest) -> None:
    await server.refuse_writes()
    assert not await server.database.ping()
    async with server.database.unit_of_work() as unit:
        assert (await unit.connection.execute(text(READ))).scalar() == 1
    for statement in ("UPDATE facts SET value = 5", "SELECT value FROM facts FOR UPDATE"):
        with pytest.raises(Unavailable, match="read-only"):
            async with server.database.unit_of_work() as unit:
                await unit.connection.execute(text(statement))
    with pytest.raises(Unavailable, match="read-only"):
        async with server.database.unit_of_work() as unit:
            await unit.publish(liveness("a"))


async def test_events_are_published_as_they_are_committed_and_not_as_their_positions_are(
    server: ServerUnderTest,
) -> None:
    database, broker = server.database, Broker()
    one = await server.dial()
    row = liveness("late", 1)
    put = "INSERT INTO outbox (id, type, subject, headers, payload) VALUES ($1, $2, $3, $4, $5)"
    async with running(database.relay(broker.carry)):
        async with one.transaction():
            await one.execute(put, row.id, type_of(row.data), row.subject, headers_of(row), row.data.body())
            async with database.unit_of_work() as unit:
                await unit.publish(liveness("early", 2))
            await eventually(lambda: bool(broker.arrived))
        async with database.unit_of_work() as unit:  # wakes the relay
            await unit.publish(liveness("last", 3))
        await eventually(lambda: len(broker.arrived) == 3)
    assert broker.arrived[0].data.node == "early"
    assert {event.data.node for event in broker.arrived[1:]} == {"late", "last"}


async def test_the_second_handler_of_an_event_waits_and_learns_how_the_first_ended(server: ServerUnderTest) -> None:
    database, identifier = server.database, new_id()

    async def handle() -> bool:
        async with database.unit_of_work() as unit:
            return bool(await unit.first_time("consumer", identifier))

    with suppress(Undone):
        async with database.unit_of_work() as unit:
            assert await unit.first_time("consumer", identifier)
            waiting = asyncio.create_task(handle())
            await server.until_waiting()
            raise Undone
    assert await waiting
    assert not await handle()


async def test_a_pool_that_is_used_up_waits_for_a_session(server: ServerUnderTest) -> None:
    database = server.database

    async def read() -> int:
        async with database.unit_of_work() as unit:
            return int((await unit.connection.execute(text(READ))).scalar() or 0)

    async with AsyncExitStack() as stack:
        for _ in range(6):
            await stack.enter_async_context(database.unit_of_work())
        last = asyncio.create_task(read())
        await asyncio.sleep(0)
        assert database.connections().in_use == 6
        assert not last.done()
    assert await last == 1


async def test_a_lost_transaction_is_a_conflict_for_its_unit_of_work(server: ServerUnderTest) -> None:
    database = server.database
    change = text("UPDATE facts SET value = value + 1 WHERE name = :name")

    async def second() -> None:
        async with database.unit_of_work() as unit:
            await unit.connection.execute(change, {"name": "b"})
            started.set()
            await go_on.wait()
            await unit.connection.execute(change, {"name": "a"})

    async def first() -> None:
        async with database.unit_of_work() as unit:
            await unit.connection.execute(change, {"name": "a"})
            waiting = asyncio.create_task(unit.connection.execute(change, {"name": "b"}))
            await server.until_waiting()
            go_on.set()
            await waiting

    started, go_on = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(second())
    await started.wait()
    outcomes = await asyncio.gather(first(), task, return_exceptions=True)
    (lost,) = [outcome for outcome in outcomes if outcome is not None]  # which one, the servers' timers say
    assert isinstance(lost, Conflict)
    assert "lost against another" in lost.message
