"""The table of every NodeQOS: rows of the tables before it come along, and replicas of that version still work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.model.time import SystemClock
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.store.engine import connect_database
from slackwater.store.migrations import Schema
from slackwater.store.resource_table import PostgresResourceStore
from slackwater.testing.postgres_server import FreshDatabase

if TYPE_CHECKING:
    from sqlalchemy import Connection

DEFAULT = EnsuranceSettings().first_policy().document()
RULES = {"kind": "NodeQOS", "metadata": {"name": "gold"}, "spec": {"rules": []}}
BEFORE = """INSERT INTO {} (name, generation, document) VALUES (:name, :generation, CAST(:document AS jsonb))
 ON CONFLICT (name) DO NOTHING"""
"""As the version before wrote documents."""


def step(connection: Connection, name: str) -> None:
    """Carry out `upgrade` or `downgrade` of the version that brings the table."""
    versions = Schema.of("ensurance").versions
    script = ScriptDirectory(str(versions.parent), version_locations=[str(versions)])
    with Operations.context(MigrationContext.configure(connection)):
        getattr(script.get_revision("0006").module, name)()


def row(name: str, generation: int, document: Any) -> dict[str, Any]:
    return {"name": name, "generation": generation, "document": None if document is None else json.dumps(document)}


async def test_rows_come_along_and_an_older_replica_reads_and_writes_beside_us(fresh_database: FreshDatabase) -> None:
    database = connect_database((await fresh_database(["ensurance"]))["ensurance"], "ensurance", SystemClock())
    store = PostgresResourceStore(database, NODE_QOS)
    async with database.unit_of_work() as unit:
        await unit.connection.run_sync(step, "downgrade")
        await unit.connection.execute(text(BEFORE.format("policies")), row("default", 3, DEFAULT))
        await unit.connection.execute(text(BEFORE.format("node_rules")), row("gold", 2, RULES))
        await unit.connection.execute(text(BEFORE.format("node_rules")), row("gone", 4, None))
        await unit.connection.run_sync(step, "upgrade")
    known = {one.name: (one.generation, one.document) for one in await store.read_all()}
    assert known == {"default": (3, DEFAULT), "gold": (2, RULES), "gone": (4, None)}
    async with database.unit_of_work() as unit:
        execute = unit.connection.execute
        await execute(text("LOCK TABLE node_rules IN SHARE ROW EXCLUSIVE MODE"))
        assert [each.name for each in await execute(text("SELECT name FROM node_rules ORDER BY name"))] == [
            "gold",
            "gone",
        ]
        assert (await execute(text(BEFORE.format("node_rules")), row("silver", 1, RULES))).rowcount == 1
        assert (await execute(text(BEFORE.format("policies")), row("default", 1, DEFAULT))).rowcount == 0
        update = text(
            "UPDATE policies SET generation = 4, changed_at = now() WHERE name = 'default' AND generation = 3"
        )
        assert (await execute(update)).rowcount == 1
    known = {one.name: one.generation for one in await store.read_all()}
    assert known == {"default": 4, "gold": 2, "gone": 4, "silver": 1}
    async with database.unit_of_work() as unit:
        await unit.connection.run_sync(step, "downgrade")
        assert [each.generation for each in await unit.connection.execute(text("SELECT generation FROM policies"))] == [
            4
        ]
        await unit.connection.run_sync(step, "upgrade")
    assert {one.name: one.generation for one in await store.read_all()} == known
    await database.close()
