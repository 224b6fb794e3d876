"""The story of the unit tests, for the tests with servers; and both read models, empty."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from slackwater.console.adapters.memory import MemoryReadModel
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.ports import ReadModel
from slackwater.store.engine import connect_database
from slackwater.testing.clock import EPOCH, FakeClock
from slackwater.testing.postgres_server import FreshDatabase

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "console"))


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def model(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[ReadModel]:
    if request.param == "memory":
        yield MemoryReadModel()
        return
    addresses = await fresh_database(["console"])
    database = connect_database(addresses["console"], "console", FakeClock(EPOCH))
    yield PostgresReadModel(database)
    await database.close()
