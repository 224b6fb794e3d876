"""`site("colocation")`: one service over a fresh schema and broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest
from running import Site
from tests.support.postgres_server import FreshDatabase

from slackwater.bus.connect.nats_bus import NatsBus

MakeSite = Callable[[str], Awaitable[Site]]


@pytest.fixture
async def site(bus: NatsBus, fresh_database: FreshDatabase, tmp_path: Path) -> AsyncIterator[MakeSite]:
    async with AsyncExitStack() as stack:

        async def make(service: str) -> Site:
            address = (await fresh_database([service]))[service]
            sql = await asyncpg.connect(address, server_settings={"search_path": service})
            stack.push_async_callback(sql.close)
            made = Site(bus, address, service, sql, tmp_path)
            await stack.enter_async_context(made.listening())
            return made

        yield make
