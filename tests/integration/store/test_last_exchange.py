"""A row and its events in one exchange: both or neither, and only under leases that are held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
import pytest_asyncio
from probe_service import liveness
from sqlalchemy import text
from tests.support.open_database import OpenDatabase

from slackwater.events.envelope import Event
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import Conflict, Fenced
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.store.engine import PostgresDatabase
from slackwater.store.port import Database, RowChange, UnitOfWork

NODE = "n1"


class Held:
    """slackwater.store.port.Fence: what a replica believes to hold."""

    member = "a/1"

    def __init__(self, leases: Mapping[int, int]) -> None:
        self.leases = dict(leases)
        self.missed: set[int] = set()

    def held(self) -> Mapping[int, int]:
        return self.leases

    def holds(self, partition: int) -> bool:
        return partition in self.leases

    def on_change(self, changed: object) -> None:
        del changed

    def refused(self, partitions: Iterable[int]) -> None:
        self.missed.update(partitions)


@pytest_asyncio.fixture
async def database(open_database: OpenDatabase) -> PostgresDatabase:
    """Of a service with leases; its documents stand for a row that a use case changes last."""
    found = await open_database("ensurance")
    async with found.unit_of_work() as unit:
        await unit.connection.execute(
            text(
                "INSERT INTO guarded_nodes (node, version, generation, throttled, document) VALUES (:n, 1, 1, 0, '{}')"
            ),
            {"n": NODE},
        )
    return found


def to(generation: int, version: int = 1) -> RowChange:
    return RowChange(
        "UPDATE guarded_nodes SET generation = :generation WHERE node = :node AND version = :read",
        {"generation": generation, "node": NODE, "read": version},
        Conflict("another writer changed it"),
    )


async def stored(database: Database) -> tuple[int, int]:
    """The row's generation, and how many events wait."""
    async with database.unit_of_work() as unit:
        found = await unit.connection.execute(
            text("SELECT generation, (SELECT count(*) FROM outbox) AS events FROM guarded_nodes WHERE node = :n"),
            {"n": NODE},
        )
        row = found.one()
    return row.generation, row.events


def event(number: int = 1) -> Event[NodeLivenessChanged]:
    return liveness(NODE, number)


async def claimed(database: PostgresDatabase) -> dict[int, int]:
    leases = database.leases(Held.member)
    await leases.beat(60)
    found = {one.partition: one.epoch for one in await leases.claim(list(ALL_PARTITIONS))}
    await leases.close()
    return found


async def write(unit: UnitOfWork, generation: int, version: int = 1) -> None:
    await unit.publish(event())
    await unit.publish(event(2))
    unit.concerns(NODE)
    unit.changes_last(to(generation, version))


async def writing(database: Database, *, first: str, version: int = 1) -> None:
    """A unit of work of its own, that does something else first."""
    async with database.unit_of_work() as unit:
        if first:
            await unit.connection.execute(text(first))
        await write(unit, 2, version)


async def test_both_are_written(database: PostgresDatabase) -> None:
    fence = Held(await claimed(database))
    async with database.fenced(fence).unit_of_work() as unit:
        await write(unit, 2)
    assert await stored(database) == (2, 2)


async def test_it_is_one_transaction_and_takes_no_second_exchange(database: PostgresDatabase) -> None:
    async with database.unit_of_work() as unit:
        await write(unit, 2)
        assert not unit.connection.in_transaction()
    assert await stored(database) == (2, 2)


async def test_a_row_that_is_not_there_leaves_no_event_behind(database: PostgresDatabase) -> None:
    fence = Held(await claimed(database))
    with pytest.raises(Conflict, match="another writer"):
        async with database.fenced(fence).unit_of_work() as unit:
            await write(unit, 2, version=7)
    assert await stored(database) == (1, 0)


@pytest.mark.parametrize("reads_first", [False, True])
async def test_under_a_lease_that_was_lost_neither_is_written(database: PostgresDatabase, reads_first: bool) -> None:
    leases = await claimed(database)
    fence = Held({partition: epoch - 1 for partition, epoch in leases.items()})
    first = "SELECT 1" if reads_first else ""
    with pytest.raises(Fenced):
        await writing(database.fenced(fence), first=first)
    assert fence.missed == {partition_of(NODE)}
    assert await stored(database) == (1, 0)


async def test_events_alone_are_not_written_under_a_lost_lease_either(database: PostgresDatabase) -> None:
    leases = await claimed(database)
    fence = Held({partition: epoch - 1 for partition, epoch in leases.items()})
    with pytest.raises(Fenced):
        async with database.fenced(fence).unit_of_work() as unit:
            await unit.publish(event())
    assert await stored(database) == (1, 0)


async def test_what_was_written_before_is_undone_with_it(database: PostgresDatabase) -> None:
    with pytest.raises(Conflict):
        await writing(database, first="UPDATE guarded_nodes SET throttled = 9", version=7)
    async with database.unit_of_work() as unit:
        assert (await unit.connection.execute(text("SELECT throttled FROM guarded_nodes"))).scalar_one() == 0


async def test_the_session_goes_back_as_it_was(database: PostgresDatabase) -> None:
    """The pool hands the same session to the next user, which may need a transaction."""
    async with database.unit_of_work() as unit:
        await write(unit, 2)
    with pytest.raises(Conflict):
        await writing(database, first="UPDATE guarded_nodes SET generation = 9", version=7)
    assert await stored(database) == (2, 2)
