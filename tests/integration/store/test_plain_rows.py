"""What is written often is stored plain, in partitions that are there and those that come; and there is a way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.store.migrations import Schema
from slackwater.testing.postgres_server import FreshDatabase

if TYPE_CHECKING:
    from sqlalchemy import Connection

STORAGE = text("""
SELECT DISTINCT CAST(attstorage AS text) FROM pg_attribute
WHERE attrelid = CAST(:relation AS regclass) AND attname = ANY(:columns)
""")
ARRAYS = ["uids", "tiers", "cpu", "memory", "cpu_limits", "throttled", "cpu_pressure"]
REVISIONS = {"ingestion": "0006", "prediction": "0005", "colocation": "0006", "ensurance": "0004", "console": "0008"}
PODS_ARE_TEXT = "0009"
PLAIN, PACKED = {"e"}, {"x"}


def step(connection: Connection, name: str, service: str, revision: str = "") -> None:
    """Carry out `upgrade` or `downgrade` of the version that stores plain, or of another one."""
    versions = Schema.of(service).versions
    script = ScriptDirectory(str(versions.parent), version_locations=[str(versions)])
    with Operations.context(MigrationContext.configure(connection)):
        getattr(script.get_revision(revision or REVISIONS[service]).module, name)()


@pytest.mark.parametrize("service", REVISIONS)
async def test_plain_goes_back_and_forth(fresh_database: FreshDatabase, service: str) -> None:
    database = connect_database((await fresh_database([service]))[service], service, SystemClock())
    async with database.unit_of_work() as unit:

        async def stored(relation: str, columns: list[str]) -> set[str]:
            return set((await unit.connection.execute(STORAGE, {"relation": relation, "columns": columns})).scalars())

        async def partition(day: int) -> str:
            name = f"report_pods_of_test_{day}"
            bounds = f"FROM ('1999-01-0{day}') TO ('1999-01-0{day + 1}')"
            await unit.connection.execute(text(f"CREATE TABLE {name} PARTITION OF report_pods FOR VALUES {bounds}"))
            return name

        places = [("outbox", ["payload"])]
        if service == "console":
            await unit.connection.run_sync(step, "downgrade", service, PODS_ARE_TEXT)
            places.append(("node", ["pods"]))
        if service == "ingestion":
            places += [("report_pods", ARRAYS), (await partition(1), ARRAYS)]
        for way, expected in (("", PLAIN), ("downgrade", PACKED), ("upgrade", PLAIN)):
            if way:
                await unit.connection.run_sync(step, way, service)
            assert {place: await stored(place, columns) for place, columns in places} == {
                place: expected for place, _ in places
            }
        if service == "ingestion":
            assert await stored(await partition(2), ARRAYS) == PLAIN
    await database.close()


async def test_the_pods_of_a_node_become_text_and_a_document_again(fresh_database: FreshDatabase) -> None:
    database = connect_database((await fresh_database(["console"]))["console"], "console", SystemClock())
    pods = '[{"uid": "u1", "name": "web \u00e9"}]'
    async with database.unit_of_work() as unit:
        await unit.connection.execute(text("INSERT INTO node (name) VALUES ('silent')"))
        insert = text("INSERT INTO node (name, reported_pods) VALUES ('n', :pods)")
        await unit.connection.execute(insert, {"pods": pods})

        async def kept(statement: str) -> list[str | None]:
            return list((await unit.connection.execute(text(statement))).scalars())

        await unit.connection.run_sync(step, "downgrade", "console", PODS_ARE_TEXT)
        assert await kept("SELECT pods -> 0 ->> 'name' FROM node ORDER BY name") == ["web \u00e9", None]
        await unit.connection.run_sync(step, "upgrade", "console", PODS_ARE_TEXT)
        assert await kept("SELECT reported_pods FROM node ORDER BY name") == [pods, None]
        storage = {"relation": "node", "columns": ["reported_pods"]}
        assert set((await unit.connection.execute(STORAGE, storage)).scalars()) == PLAIN
    await database.close()
