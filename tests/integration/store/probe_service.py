"""A service called `probe` that exists only here, with a schema of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgres_server import FreshDatabase

from slackwater.events.envelope import Event, event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.serialized import Written
from slackwater.model.errors import InvalidInput, StreamFull, Unavailable
from slackwater.model.nodes import Liveness
from slackwater.model.time import SystemClock
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.store.migrations import Schema
from slackwater.store.port import Relay

PROBE = Schema("probe", Path(__file__).parent / "migrations" / "versions")
NOW = datetime(2026, 1, 5, tzinfo=UTC)


def liveness(node: str, number: int = 0) -> Event[NodeLivenessChanged]:
    """An event of `node`; `number` tells its events apart."""
    change = NodeLivenessChanged(
        node=node,
        liveness=Liveness.FRESH,
        previous=None,
        last_report_at=NOW.replace(microsecond=number),
        changed_at=NOW,
    )
    return event_of(change, source="tests", time=NOW)


class Broker:
    """A bus that remembers what arrived, drops repeats by id as JetStream does, and can be away or refuse."""

    def __init__(self) -> None:
        self.arrived: list[Event[Any]] = []
        self.attempts = 0
        self.away = False
        self.refused_nodes: set[str] = set()
        self.failing_nodes: set[str] = set()
        self.full_streams: set[str] = set()
        self.before: Callable[[], None] | None = None

    async def carry(self, event: Written) -> None:
        await self.publish(event.event())

    async def publish(self, event: Event[Any]) -> None:
        self.attempts += 1
        if self.before is not None:
            self.before()
        await asyncio.sleep(0)
        if self.away or event.data.node in self.failing_nodes:
            raise Unavailable("the broker of this test is away")
        if event.data.STREAM in self.full_streams:
            raise StreamFull(f"{event.data.STREAM} is full")
        if event.data.node in self.refused_nodes:
            raise InvalidInput("too large", field="payload")
        if event.id not in {seen.id for seen in self.arrived}:
            self.arrived.append(event)

    def numbers(self, node: str) -> list[int]:
        """What arrived of one node, in order of arrival."""
        return [event.data.last_report_at.microsecond for event in self.arrived if event.data.node == node]


async def eventually(condition: Callable[[], bool]) -> None:
    """Poll until it holds; the test's own timeout is the limit."""
    while not condition():
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running(relay: Relay) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(relay.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def probe(fresh_database: FreshDatabase) -> AsyncIterator[PostgresDatabase]:
    addresses = await fresh_database([PROBE])
    database = connect_database(addresses["probe"], "probe", SystemClock())
    yield database
    await database.close()
