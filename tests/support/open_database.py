"""The fixture of conformance suites: a service's database on the PostgreSQL in memory, and on the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of

from slackwater.model.time import Clock, SystemClock
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.store.migrations import Schema

OpenDatabase = Callable[[Schema | str], Awaitable[PostgresDatabase]]
"""`database = await open_database("ingestion")`: a new database with this schema at head."""


@pytest_asyncio.fixture(params=["twin", "postgres"])
async def open_database(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[OpenDatabase]:
    """Opens databases of both kinds, and closes them after the test."""
    opened: list[PostgresDatabase] = []
    clock: Clock = SystemClock()

    async def open_one(service: Schema | str) -> PostgresDatabase:
        schema = service if isinstance(service, Schema) else Schema.of(service)
        if request.param == "twin":
            opened.append(twin_of(schema, clock))
        else:
            address = (await fresh_database([schema]))[schema.service]
            opened.append(connect_database(address, schema.service, clock))
        return opened[-1]

    yield open_one
    for database in opened:
        await database.close()
