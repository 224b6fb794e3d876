"""The story of the unit tests, for the tests with servers; and both read models, empty."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.postgres_server import FreshDatabase

from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.ports import ReadModel
from slackwater.store.engine import connect_database


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def model(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[ReadModel]:
    if request.param == "memory":
        yield MemoryReadModel()
        return
    addresses = await fresh_database(["console"])
    database = connect_database(addresses["console"], "console", FakeClock(EPOCH))
    yield PostgresReadModel(database)
    await database.close()
