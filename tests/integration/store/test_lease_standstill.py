"""A replica that takes over does not wait for locks of one that is suspended in the middle of a COPY."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from slackwater.store.leases import STANDSTILL_SECONDS, PostgresLeases
from slackwater.store.names import schema_of


@asynccontextmanager
async def session(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(dsn, server_settings={"search_path": schema_of("ingestion")})
    try:
        yield connection
    finally:
        connection.terminate()


async def copying(connection: asyncpg.Connection[Any], began: asyncio.Event) -> None:
    """A lock on a node, and a COPY whose rows never come."""

    async def nothing() -> AsyncIterator[bytes]:
        began.set()
        await asyncio.Event().wait()
        yield b""

    async with connection.transaction():
        await connection.execute("SELECT FROM nodes WHERE name = 'n' FOR UPDATE")
        await connection.copy_to_table("refusals", source=nothing())


async def test_a_copy_whose_client_stands_still_is_ended_and_one_that_has_just_begun_is_not(
    fresh_database: Any,
) -> None:
    dsn = (await fresh_database(["ingestion"]))["ingestion"]
    async with session(dsn) as old, session(dsn) as young, session(dsn) as next_owner:
        await next_owner.execute("INSERT INTO nodes (name) VALUES ('n')")
        stands_still, works, clock = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop().time
        stopped = asyncio.create_task(copying(old, stands_still))
        await stands_still.wait()
        await asyncio.sleep(STANDSTILL_SECONDS + 0.5)
        await young.execute("CREATE TEMP TABLE refusals (LIKE refusals)")
        began = clock()
        busy = asyncio.create_task(young.copy_to_table("refusals", source=_endless(works)))
        await works.wait()
        leases = PostgresLeases(dsn, "ingestion", "b/1")
        await leases.beat(5)
        assert [lease.partition for lease in await leases.claim([0])] == [0]
        paused = clock() - began >= STANDSTILL_SECONDS  # this machine did, and the younger copy stood still as long
        async with asyncio.timeout(60):
            await next_owner.execute("SELECT FROM nodes WHERE name = 'n' FOR UPDATE")
        stopped.cancel()  # the driver waits for rows, and only then hears that its session was ended
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError)):
            await stopped
        assert paused or not busy.done()
        busy.cancel()
        await asyncio.wait({busy})
        await leases.close()


async def _endless(began: asyncio.Event) -> AsyncIterator[bytes]:
    began.set()
    await asyncio.Event().wait()
    yield b""
