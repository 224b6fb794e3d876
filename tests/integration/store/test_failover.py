"""PostgreSQL fails over to its standby under load: the address leads to another server, and the former lives on, either
read-only or silent. Nothing is lost or doubled.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from probe_service import PROBE, Broker, eventually, liveness, running
from sqlalchemy import text
from standby import Pair, address_at, replicated
from tests.faults.proxy import Proxy, proxying

from slackwater.events.envelope import Event
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import Unavailable
from slackwater.model.time import SystemClock
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.store.leases import PostgresLeases
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database

pytestmark = pytest.mark.timeout(180)
SHARING = Schema.of("ingestion")
"""Of a service whose replicas hold leases."""
NODES = ("a", "b", "c", "d", "e", "f", "g")
"""More than the pool keeps sessions."""
MORE = 20
_PAUSE_SECONDS = 0.02


class Writers:
    """One writer per node; each commits its facts in order, every fact until it is acknowledged."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.acknowledged: dict[str, int] = dict.fromkeys(NODES, 0)
        self.last = 10**6
        self.failures = 0

    async def run(self) -> None:
        await asyncio.gather(*map(self._write, NODES))

    async def _write(self, node: str) -> None:
        number = 0
        while number < self.last:
            number += 1
            while not await self._commit(event_with_id(node, number)):
                self.failures += 1
                await asyncio.sleep(_PAUSE_SECONDS)
            self.acknowledged[node] = number

    async def _commit(self, event: Event[NodeLivenessChanged]) -> bool:
        try:
            async with self._database.unit_of_work() as unit:
                if await unit.first_time("probe", event.id):
                    number = event.data.last_report_at.microsecond
                    row = {"name": f"{event.data.node}/{number:06}", "value": number}
                    await unit.connection.execute(text("INSERT INTO facts VALUES (:name, :value)"), row)
                    await unit.publish(event)
        except Unavailable:
            return False
        return True


def event_with_id(node: str, number: int) -> Event[NodeLivenessChanged]:
    """The same id at each attempt: the inbox tells whether the lost answer was a yes."""
    return liveness(node, number).model_copy(update={"id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{node}/{number}"))})


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with replicated(tmp_path) as made:
        yield made


@asynccontextmanager
async def address_of(pair: Pair) -> AsyncIterator[tuple[Proxy, Proxy]]:
    """The address that clients use, and behind it the way to the primary."""
    async with proxying(pair.primary.port) as way, proxying(way.port) as address:
        yield address, way


@pytest.mark.parametrize("former", ["read-only", "silent"])
async def test_a_failover_loses_and_doubles_nothing(
    former: str, pair: Pair, record_property: pytest.RecordProperty
) -> None:
    async with address_of(pair) as (address, way):
        own = await prepare_database(pair.primary.dsn, [PROBE, SHARING])
        database = connect_database(address_at(own["probe"], address.port), "probe", SystemClock())
        leases = PostgresLeases(address_at(own["ingestion"], address.port), "ingestion", "me/1")
        broker, writers = Broker(), Writers(database)
        async with running(database.relay(broker.carry)):
            writing = asyncio.create_task(writers.run())
            await eventually(lambda: all(number > MORE for number in writers.acknowledged.values()))
            await leases.beat(60)
            if former == "read-only":
                await pair.demote()
                await eventually(lambda: writers.failures > MORE)  # read-only for a while
                assert not await database.ping()
            else:
                way.partition()
            await pair.promote()
            address.target_port, at = pair.standby_port, time.monotonic()
            reached = {node: number + MORE for node, number in writers.acknowledged.items()}
            await eventually(lambda: all(writers.acknowledged[node] > reached[node] for node in NODES))
            record_property("recovery_seconds", round(time.monotonic() - at, 2))
            while not await database.ping():
                await asyncio.sleep(_PAUSE_SECONDS)
            await eventually_beats(leases)
            writers.last = max(writers.acknowledged.values()) + 2  # one may be under way
            await writing
            await eventually(lambda: all(len(broker.numbers(node)) >= writers.last for node in NODES))
        async with database.unit_of_work() as unit:
            rows = (await unit.connection.execute(text("SELECT name FROM facts ORDER BY 1"))).scalars().all()
        await leases.close()
        await database.close()
    wanted = range(1, writers.last + 1)
    assert list(rows) == [f"{node}/{number:06}" for node in NODES for number in wanted]
    assert {node: broker.numbers(node) for node in NODES} == {node: list(wanted) for node in NODES}


async def eventually_beats(leases: PostgresLeases) -> None:
    while True:
        try:
            await leases.beat(60)
            return
        except Unavailable:
            await asyncio.sleep(_PAUSE_SECONDS)
