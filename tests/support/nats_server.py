"""A real nats-server for tests: one per session, emptied for each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nats.js.errors import NotFoundError
from tests.support.servers import Servers, nats_container

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.runtime.embedded_nats import EmbeddedNats


@pytest.fixture(scope="session")
def nats_url(test_servers: Servers, servers_home: Path) -> Iterator[str]:
    """The session's server, or the configured external one (its streams are deleted!)."""
    if test_servers.kind == "given":
        yield test_servers.nats_url
        return
    if test_servers.kind == "containers":
        with nats_container() as url:
            yield url
        return
    server = EmbeddedNats(servers_home / "nats")
    loop = asyncio.new_event_loop()  # asyncio.run would unset the loop that pytest-asyncio has set
    try:
        yield loop.run_until_complete(server.start())
        loop.run_until_complete(server.stop())
    finally:
        loop.close()


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[NatsBus]:
    """A connected bus on empty streams."""
    async with connect_bus(nats_url, name="test", declares=False) as connected:
        await purge_broker(connected)
        await connected.declare()
        yield connected


async def purge_broker(bus: NatsBus) -> None:
    """Delete every stream of the topology with its consumers."""
    for stream in load().streams:
        try:
            await bus.jetstream.delete_stream(stream)
        except NotFoundError:
            continue
