"""PostgreSQL is killed in the middle: nothing committed is lost, nothing has a second effect, all heals by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from probe_service import PROBE, Broker, eventually, liveness, running
from sqlalchemy import text
from sqlalchemy.exc import InterfaceError
from tests.support.postgres_server import FreshDatabase

from slackwater.model.errors import Unavailable
from slackwater.model.time import SystemClock
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.store.copy_rows import copy_rows
from slackwater.store.engine import Connections, PostgresDatabase, connect_database
from slackwater.store.leases import PostgresLeases
from slackwater.store.provision import prepare_database


@pytest.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[EmbeddedPostgres]:
    """A durable server of this test alone: it may be killed."""
    with EmbeddedPostgres(tmp_path / "state") as server:
        yield server


async def write(database: PostgresDatabase, number: int) -> bool:
    """A fact and its event in one transaction; True if the commit was acknowledged."""
    try:
        async with database.unit_of_work() as unit:
            await unit.connection.execute(
                text("INSERT INTO facts VALUES (:name, :n)"), {"name": str(number), "n": number}
            )
            await unit.publish(liveness("a", number))
    except Unavailable:
        return False
    return True


async def test_what_was_committed_survives_a_kill_and_is_published_once_in_order(own_server: EmbeddedPostgres) -> None:
    dsn = (await prepare_database(own_server.dsn, [PROBE]))["probe"]
    database = connect_database(dsn, "probe", SystemClock())
    broker = Broker()

    def kill_at_the_fourth() -> None:
        if len(broker.arrived) == 3 and own_server.running:
            own_server.kill()

    broker.before = kill_at_the_fourth
    acknowledged = [number for number in range(1, 9) if await write(database, number)]
    assert acknowledged == list(range(1, 9))
    async with running(database.relay(broker.carry)):
        await eventually(lambda: not own_server.running)
        assert not await database.ping()
        assert not await write(database, 9)
        own_server.start()
        assert await write(database, 10)  # the pool healed by itself
        await eventually(lambda: len(broker.arrived) == 9)
    assert broker.numbers("a") == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert broker.attempts > len(broker.arrived)  # the fourth was sent, its deletion was lost, and it was sent again
    async with database.unit_of_work() as unit:
        rows = await unit.connection.execute(text("SELECT value FROM facts ORDER BY value"))
        assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    await database.close()


async def test_a_session_that_rested_while_the_server_was_restarted_is_not_used(own_server: EmbeddedPostgres) -> None:
    dsn = (await prepare_database(own_server.dsn, [PROBE]))["probe"]
    database = connect_database(dsn, "probe", SystemClock())
    assert all(await asyncio.gather(*(write(database, number) for number in range(4))))  # several sessions
    own_server.kill()
    own_server.start()
    await asyncio.sleep(1.1)  # longer than a session is trusted without a question
    assert all([await write(database, number) for number in range(4, 8)])
    await database.close()


async def test_copied_rows_belong_to_the_transaction(fresh_database: FreshDatabase) -> None:
    database = connect_database((await fresh_database([PROBE]))["probe"], "probe", SystemClock())

    async def copy(*, fail: bool) -> None:
        async with database.unit_of_work() as unit:
            await copy_rows(unit.connection, "facts", ("name", "value"), [("a", 1), ("b", 2)])
            if fail:
                raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        await copy(fail=True)
    await copy(fail=False)
    async with database.unit_of_work() as unit:
        assert (await unit.connection.execute(text("SELECT sum(value) FROM facts"))).scalar() == 3
    await database.close()


async def test_a_session_whose_rollback_fails_is_ended(fresh_database: FreshDatabase) -> None:
    """As one whose server has said that it ends, and has not yet."""
    database = connect_database((await fresh_database([PROBE]))["probe"], "probe", SystemClock())

    async def leave_it_busy() -> None:
        async with database.unit_of_work() as unit:
            await unit.connection.execute(text("INSERT INTO facts VALUES ('a', 1)"))
            driver = (await unit.connection.get_raw_connection()).driver_connection
            assert driver is not None
            busy.append(asyncio.create_task(driver.fetch("SELECT pg_sleep(60)")))
            await asyncio.sleep(0.05)
            raise RuntimeError("on purpose")

    busy: list[asyncio.Task[object]] = []
    with pytest.raises(InterfaceError, match="another operation is in progress"):
        await leave_it_busy()
    assert database.connections() == Connections(in_use=0, idle=1)
    assert isinstance((await asyncio.gather(*busy, return_exceptions=True))[0], Exception)
    assert await write(database, 2)
    async with database.unit_of_work() as unit:
        assert (await unit.connection.execute(text("SELECT name FROM facts"))).scalars().all() == ["2"]
    await database.close()


async def test_an_error_of_our_own_is_not_called_an_outage(fresh_database: FreshDatabase) -> None:
    database = connect_database((await fresh_database([PROBE]))["probe"], "probe", SystemClock())

    async def fail() -> None:
        async with database.unit_of_work():
            raise TimeoutError("of something else")

    with pytest.raises(TimeoutError, match="of something else"):
        await fail()
    await database.close()


async def test_a_schema_that_another_version_has_changed_is_an_outage_to_this_one(
    fresh_database: FreshDatabase,
) -> None:
    database = connect_database((await fresh_database([PROBE]))["probe"], "probe", SystemClock())
    for statement in ("SELECT not_yet FROM facts", "SELECT * FROM not_yet"):
        with pytest.raises(Unavailable, match="another version of Slackwater has changed the schema"):
            async with database.unit_of_work() as unit:
                await unit.connection.execute(text(statement))
    for table, columns in (("facts", ("name", "not_yet")), ("not_yet", ("name", "value"))):
        with pytest.raises(Unavailable, match="another version of Slackwater has changed the schema"):
            async with database.unit_of_work() as unit:
                await copy_rows(unit.connection, table, columns, [("a", 1)])
    with pytest.raises(Unavailable, match="another version of Slackwater has changed the schema"):
        await database.leases("me/1").beat(5.0)  # this service has none
    await database.close()


async def test_a_server_that_takes_no_writes_is_an_outage_and_not_ready(fresh_database: FreshDatabase) -> None:
    """A primary that was demoted, or one whose host has made it read-only for want of room."""
    dsn = (await fresh_database([PROBE]))["probe"]
    database = connect_database(dsn + "?options=-c%20default_transaction_read_only%3Don", "probe", SystemClock())
    assert not await database.ping()
    with pytest.raises(Unavailable, match="read-only"):
        async with database.unit_of_work() as unit:
            await unit.connection.execute(text("INSERT INTO facts VALUES ('a', 1)"))
    with pytest.raises(Unavailable, match="read-only"):
        async with database.unit_of_work() as unit:
            await copy_rows(unit.connection, "facts", ("name", "value"), [("a", 1)])
    await database.close()
    dsn = (await fresh_database(["ingestion"]))["ingestion"]
    leases = PostgresLeases(dsn + "?options=-c%20default_transaction_read_only%3Don", "ingestion", "me/1")
    with pytest.raises(Unavailable, match="read-only"):
        await leases.beat(5.0)
    await leases.close()


async def test_a_password_that_is_not_valid_any_more_is_an_outage(fresh_database: FreshDatabase) -> None:
    dsn = (await fresh_database([PROBE]))["probe"]
    parts = urlsplit(dsn)
    wrong = urlunsplit(parts._replace(netloc=f"{parts.username}:other@{parts.hostname}:{parts.port}"))
    database = connect_database(wrong, "probe", SystemClock())
    assert not await database.ping()
    assert not await write(database, 1)
    await database.close()
