"""Stores of resources: generations, their history, and kinds that share a table; in memory and in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from sqlalchemy import text
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.resources import MemoryResourceStore

from slackwater.model.errors import Conflict
from slackwater.model.time import SystemClock
from slackwater.resources.kind import Kind
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.store import KEPT_GENERATIONS, ResourceStore, StoredResource
from slackwater.store.engine import connect_database
from slackwater.store.port import Database
from slackwater.store.resource_table import PostgresResourceStore

SHARED = replace(AUTONOMY, name="MaintenanceWindow", table="")
AS_BEFORE = {
    "autonomies": "UPDATE autonomies SET generation = 2, document = CAST(:document AS jsonb) WHERE name = 'gold'",
    "": "UPDATE resources SET generation = 2, document = CAST(:document AS jsonb) WHERE name = 'gold'",
}
"""As a version without history changes a document."""
OTHER = replace(SHARED, name="Another")


def row(generation: int, by: str = "ann", name: str = "gold") -> StoredResource:
    return StoredResource(name, generation, {"metadata": {"name": name, "changedBy": by}, "spec": {"n": generation}})


async def save(store: ResourceStore, *rows: StoredResource) -> None:
    async with store.changing() as transaction:
        for each in rows:
            await transaction.save(each)


@asynccontextmanager
async def database_of(fresh_database: FreshDatabase) -> AsyncIterator[Database]:
    database = connect_database((await fresh_database(["ensurance"]))["ensurance"], "ensurance", SystemClock())
    yield database
    await database.close()


@pytest.fixture(params=["memory", "twin own table", "twin shared table", "own table", "shared table"])
async def store(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[ResourceStore]:
    if request.param == "memory":
        yield MemoryResourceStore()
        return
    kind = AUTONOMY if request.param.endswith("own table") else SHARED
    if request.param.startswith("twin"):
        yield PostgresResourceStore(twin_of("ensurance"), kind)
        return
    async with database_of(fresh_database) as database:
        yield PostgresResourceStore(database, kind)


async def test_each_generation_is_kept_once_with_author_and_time(store: ResourceStore) -> None:
    await save(store, row(1))
    with pytest.raises(Conflict):
        await save(store, row(1))
    with pytest.raises(Conflict):
        await save(store, row(2, "bob"), row(2, "bob"))
    assert [past.generation for past in await store.history("gold")] == [1], "all of a transaction, or nothing"
    await save(store, row(2, "bob"), StoredResource("gold", 3, None, deleted_by="cid"))
    kept = await store.history("gold")
    assert [(past.generation, past.author, past.document is None) for past in kept] == [
        (3, "cid", True),
        (2, "bob", False),
        (1, "ann", False),
    ]
    assert kept[1].document == row(2, "bob").document
    assert all(past.changed_at.tzinfo for past in kept)
    assert await store.history("silver") == []
    assert await store.record_missing() == 0


async def test_the_last_generations_are_kept(store: ResourceStore) -> None:
    for generation in range(1, KEPT_GENERATIONS + 4):
        await save(store, row(generation))
    await save(store, row(1, name="silver"))
    kept = [past.generation for past in await store.history("gold")]
    assert kept == [*range(KEPT_GENERATIONS + 3, 3, -1)]


async def test_kinds_in_the_shared_table_have_nothing_in_common(fresh_database: FreshDatabase) -> None:
    async with database_of(fresh_database) as database:
        store, other = PostgresResourceStore(database, SHARED), PostgresResourceStore(database, OTHER)
        await save(store, row(1), row(2))
        assert await other.read_all() == []
        await save(other, row(1, "bob"))
        assert [each.generation for each in await store.read_all()] == [2]
        assert [past.author for past in await other.history("gold")] == ["bob"]


@pytest.mark.parametrize("kind", [AUTONOMY, SHARED], ids=["own table", "shared table"])
async def test_what_a_version_without_history_stored_is_recorded_once(
    kind: Kind, fresh_database: FreshDatabase
) -> None:
    async with database_of(fresh_database) as database:
        store = PostgresResourceStore(database, kind)
        await save(store, row(1), row(1, name="silver"))
        async with database.unit_of_work() as unit:
            await unit.connection.execute(
                text(AS_BEFORE[kind.table]), {"document": '{"metadata": {"changedBy": "old"}}'}
            )
        assert (await store.record_missing(), await store.record_missing()) == (1, 0)
        assert [(past.generation, past.author) for past in await store.history("gold")] == [(2, "old"), (1, "ann")]
