"""Keyed rows in PostgreSQL and in memory give the same answers to any history, and keep other writers out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_tables import LOCKED, NEWER, SHARED, TABLES, VERSIONED, Row, create_tables, empty_tables, parity_of
from probe_service import liveness
from sqlalchemy import text
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.store import MemoryDatabase

from slackwater.model.errors import Conflict, Fenced, SlackwaterError
from slackwater.model.identifiers import new_id, partition_of
from slackwater.model.time import SystemClock
from slackwater.runtime.partition_sharding import LeaseStore
from slackwater.store.engine import connect_database
from slackwater.store.keyed import KeyedRows, KeyedTable, only
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine, Unreadable
from slackwater.store.quarantine_memory import unstored

KEYS = ("a", "b", "Ä/1", "n.1")


class Undone(Exception):
    """What a history raises to have its unit of work rolled back."""


@dataclass(frozen=True)
class Step:
    """One call on the rows of a table; its answer is compared."""

    table: KeyedTable[Row]
    call: str
    keys: tuple[str, ...]
    amount: int = 0
    expected: int = 0

    def rows(self) -> list[Row]:
        return [Row(key, self.expected + 1, self.amount, (self.amount, 0)) for key in self.keys]

    async def answer(self, unit: UnitOfWork, quarantine: Quarantine) -> Any:
        rows: KeyedRows[Row] = unit.keyed(self.table, quarantine)
        match self.call:
            case "read":
                return dict(await rows.read(self.keys))
            case "read_all":
                return list(await rows.read_all())
            case "of_partitions":
                return dict(await rows.read_all({partition_of(key) for key in self.keys}))
            case "group":
                return dict(await rows.read_group(parity_of(self.amount)))
            case "page":
                return list(await rows.page(self.keys[0], 2))
            case "column":
                return await rows.column(self.keys[0], "amount")
            case "lock":
                return dict(await rows.lock(self.keys))
            case "remove":
                return await rows.remove(self.keys)
            case "write" | "insert":
                write = rows.write if self.call == "write" else rows.insert
                return await write([self.shaped(row) for row in self.rows()])
            case _:
                value = self.rows()[0]
                return await rows.replace(self.shaped(value), self.expected, last=self.call == "replace last")

    def shaped(self, row: Row) -> Row:
        """As the table can hold it."""
        row = row if self.table is NEWER else replace(row, parts=())
        return row if self.table.version else replace(row, version=0)


Unit = tuple[bool, Sequence[Step]]
keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True).map(tuple)
reads = st.builds(
    Step,
    st.sampled_from(TABLES),
    st.sampled_from(["read", "read_all", "of_partitions", "page", "column"]),
    keys,
)
groups = st.builds(Step, st.just(LOCKED), st.just("group"), keys, st.integers(0, 1))
changes = st.sampled_from(["write", "insert", "lock"])
writes = st.builds(Step, st.sampled_from([LOCKED, NEWER]), changes, keys, st.integers(0, 2))
removals = st.builds(Step, st.sampled_from(TABLES), st.just("remove"), keys)
replaces = st.builds(
    Step, st.sampled_from([VERSIONED, SHARED]), st.just("replace"), keys, st.integers(0, 2), st.integers(0, 2)
)
last = st.builds(Step, st.just(VERSIONED), st.just("replace last"), keys, st.integers(0, 2), st.integers(1, 2))
units: st.SearchStrategy[Unit] = st.tuples(
    st.sampled_from([False, False, False, True]),
    st.tuples(st.lists(reads | groups | writes | replaces | removals, max_size=5), st.lists(last, max_size=1)).map(
        lambda both: [*both[0], *both[1]]
    ),
)


async def answers(database: Database, history: Sequence[Unit]) -> list[Any]:
    """Of every call in every unit of work; a unit that raises says what."""
    found: list[Any] = []
    for fails, steps in history:
        heard: list[Any] = []
        try:
            async with database.unit_of_work() as unit:
                for step in steps:
                    heard += [await step.answer(unit, unstored())]
                if fails:
                    raise Undone
        except (SlackwaterError, Undone) as error:
            heard.append((type(error).__name__, str(error)))
        found.append(heard)
    async with database.unit_of_work() as unit:
        return found + [dict(await unit.keyed(table, unstored()).read_all()) for table in TABLES]


@pytest_asyncio.fixture
async def address(fresh_database: FreshDatabase) -> str:
    """Of a schema with leases and the tables of this suite."""
    address = (await fresh_database(["ensurance"]))["ensurance"]
    database = connect_database(address, "ensurance", SystemClock())
    await create_tables(database)
    await database.close()
    return address


def test_any_history_has_the_same_answers_in_memory_and_in_postgresql(address: str) -> None:
    loop = asyncio.new_event_loop()
    real, twin = connect_database(address, "ensurance", SystemClock()), twin_of("ensurance")
    loop.run_until_complete(create_tables(twin))

    @settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(units, min_size=1, max_size=6))
    def compare(history: list[Unit]) -> None:
        async def all_three() -> list[list[Any]]:
            await empty_tables(real)
            await empty_tables(twin)
            return [await answers(one, history) for one in (MemoryDatabase(), twin, real)]

        in_memory, in_twin, in_postgresql = loop.run_until_complete(all_three())
        assert in_memory == in_postgresql
        assert in_twin == in_postgresql

    try:
        compare()
    finally:
        loop.run_until_complete(real.close())
        loop.close()


@pytest_asyncio.fixture(params=["memory", "twin", "postgres"])
async def database(request: pytest.FixtureRequest, address: str) -> AsyncIterator[Database]:
    if request.param == "memory":
        yield MemoryDatabase()
        return
    if request.param == "twin":
        twin = twin_of("ensurance")
        await create_tables(twin)
        yield twin
        return
    found = connect_database(address, "ensurance", SystemClock())
    yield found
    await found.close()


class Held:
    """slackwater.store.port.Fence over leases that were claimed."""

    def __init__(self, member: str, leases: Mapping[int, int]) -> None:
        self.member = member
        self.leases = leases
        self.missed: set[int] = set()

    def held(self) -> Mapping[int, int]:
        return self.leases

    def holds(self, partition: int) -> bool:
        return partition in self.leases

    def on_change(self, tell: object) -> None:
        """Nothing changes here."""

    def refused(self, partitions: Any) -> None:
        self.missed.update(partitions)


async def claim(leases: LeaseStore, partition: int) -> dict[int, int]:
    await leases.beat(60)
    return {lease.partition: lease.epoch for lease in await leases.claim([partition])}


async def change(database: Database, table: KeyedTable[Row], key: str) -> None:
    async with database.unit_of_work() as unit:
        rows = unit.keyed(table, unstored())
        if table.version:
            await rows.replace(Row(key, 1, 7), 0)
        elif table is LOCKED:
            await rows.write([replace((await rows.lock([key]))[key], amount=7)])
        else:
            await rows.write([Row(key, 0, 7, (1, 2))])


async def stored(database: Database, table: KeyedTable[Row]) -> dict[str, Row]:
    async with database.unit_of_work() as unit:
        return dict(await unit.keyed(table, unstored()).read_all())


@pytest.mark.parametrize("table", [VERSIONED, LOCKED, NEWER], ids=lambda table: table.name)
async def test_the_old_owner_of_a_partition_writes_nothing(database: Database, table: KeyedTable[Row]) -> None:
    old, partition = database.leases("a/1"), partition_of("n")
    other = next(key for key in map(str, range(999)) if partition_of(key) == partition)
    held = Held("a/1", await claim(old, partition))
    await change(database.fenced(held), table, "n")
    await old.leave()
    new = database.leases("b/1")
    owner = Held("b/1", await claim(new, partition))
    before = await stored(database, table)
    with pytest.raises(Fenced):
        await change(database.fenced(held), table, other)
    assert held.missed == {partition}
    assert await stored(database, table) == before
    await change(database.fenced(owner), table, other)
    assert (await stored(database, table)).keys() == before.keys() | {other}
    await old.close()
    await new.close()


async def test_rows_of_no_node_are_written_by_every_replica(database: Database) -> None:
    nothing = Held("a/1", {})
    await change(database.fenced(nothing), SHARED, "pool")
    assert await stored(database, SHARED) == {"pool": Row("pool", 1, 7)}


async def break_row(database: Database, table: KeyedTable[Row], key: str) -> None:
    if isinstance(database, MemoryDatabase):
        database.tables[table.name].broken[key] = KeyError("amount")
        return
    async with database.unit_of_work() as unit:
        statement = f"UPDATE {table.name} SET document = '{{}}' WHERE key = :key"  # noqa: S608 - a name of ours
        await unit.connection.execute(text(statement), {"key": key})


@pytest.mark.parametrize("table", [VERSIONED, LOCKED], ids=lambda table: table.name)
async def test_a_broken_row_sets_its_node_aside_and_costs_no_other(database: Database, table: KeyedTable[Row]) -> None:
    for key in ("a", "b"):
        await change(database, table, key)
    await break_row(database, table, "a")
    quarantine = unstored()
    async with database.unit_of_work() as unit:
        rows = unit.keyed(table, quarantine)
        assert [*await rows.read_all()] == ["b"]
        assert quarantine.holds(table.name, "a")
        assert quarantine.holds_node("a")
        assert [*await rows.lock(["a", "b"])] == ["b"]
        assert [*await rows.page("", 1)] == ["b"], "a page is not empty before the end"
        assert await rows.column("a", "amount") == 7
        with pytest.raises(Unreadable):
            only(await rows.read(["a"]), "a")


async def test_a_broken_row_of_no_node_is_read_as_declared_and_released_when_it_is_whole(database: Database) -> None:
    await change(database, SHARED, "pool")
    await break_row(database, SHARED, "pool")
    quarantine = unstored()
    async with database.unit_of_work() as unit:
        rows = unit.keyed(SHARED, quarantine)
        assert await rows.read_all() == {"pool": Row("pool", 1, -1)}
        assert quarantine.holds(SHARED.name, "pool")
        await rows.replace(Row("pool", 2, 8), 1)
        assert await rows.read_all() == {"pool": Row("pool", 2, 8)}
    await quarantine.work()
    assert not quarantine.holds(SHARED.name, "pool")


async def test_pages_follow_each_other_in_order_of_keys(database: Database) -> None:
    for key in ("b", "a", "c"):
        await change(database, NEWER, key)
    async with database.unit_of_work() as unit:
        rows = unit.keyed(NEWER, unstored())
        assert [[*await rows.page(after, 2)] for after in ("", "b", "c")] == [["a", "b"], ["c"], []]


async def test_a_row_gives_way_to_one_that_is_as_new_and_not_to_an_older_one(database: Database) -> None:
    found = []
    for amount, part in ((3, 1), (3, 2), (2, 3), (4, 4)):
        async with database.unit_of_work() as unit:
            found.append(await unit.keyed(NEWER, unstored()).write([Row("a", 0, amount, (part,))]))
    assert found == [{"a"}, {"a"}, set(), {"a"}]
    assert await stored(database, NEWER) == {"a": Row("a", 0, 4, (4,))}


async def test_rows_events_and_what_was_handled_are_committed_together(database: Database) -> None:
    ids = [new_id(), new_id()]

    async def handle(*, fails: bool) -> set[str]:
        async with database.unit_of_work() as unit:
            new = await unit.first_times("consumer", ids)
            await unit.keyed(NEWER, unstored()).write([Row("a", 0, 1, ())])
            await unit.publish(liveness("a", 1))
            if fails:
                raise Undone
            return new

    with pytest.raises(Undone):
        await handle(fails=True)
    assert await stored(database, NEWER) == {}
    assert await handle(fails=False) == set(ids)
    assert await handle(fails=False) == set()


async def test_of_two_writers_of_one_version_the_second_learns_of_the_first_at_the_end(database: Database) -> None:
    await change(database, VERSIONED, "a")

    async def write_last(amount: int) -> None:
        async with database.unit_of_work() as unit:
            await unit.publish(liveness("a", 1))
            await unit.keyed(VERSIONED, unstored()).replace(Row("a", 2, amount), 1, last=True)

    await write_last(8)
    with pytest.raises(Conflict, match="thing a: version 1 is not the one that is stored"):
        await write_last(9)
    assert await stored(database, VERSIONED) == {"a": Row("a", 2, 8)}
