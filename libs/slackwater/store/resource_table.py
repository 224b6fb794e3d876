"""The resources of one kind in a table of a service's schema. A change locks the table against other changes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import TextClause, text

from slackwater.model.errors import Conflict
from slackwater.resources.kind import Kind
from slackwater.resources.store import StoredResource
from slackwater.store.names import news_channel, readable_time, schema_of
from slackwater.store.port import Database, UnitOfWork

_TELL: Final = text("SELECT pg_notify(:channel, 'policy')")


@dataclass(frozen=True, slots=True)
class _Statements:
    lock: TextClause
    read: TextClause
    insert: TextClause
    update: TextClause


def _statements(table: str) -> _Statements:
    return _Statements(
        text(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"),
        text(
            "SELECT name, generation, document,"  # noqa: S608 - a checked name
            f" {readable_time('changed_at')} AS changed_at"
            f" FROM {table} ORDER BY name"
        ),
        text(
            f"INSERT INTO {table} (name, generation, document)"  # noqa: S608 - a checked name
            " VALUES (:name, :generation, CAST(:document AS jsonb)) ON CONFLICT (name) DO NOTHING"
        ),
        text(
            f"UPDATE {table} SET generation = :generation, document = CAST(:document AS jsonb),"  # noqa: S608 - a checked name
            " changed_at = now() WHERE name = :name AND generation = :generation - 1"
        ),
    )


class _Transaction:
    def __init__(self, unit: UnitOfWork, kind: Kind, statements: _Statements) -> None:
        self._unit = unit
        self._kind = kind
        self._statements = statements

    async def read_all(self) -> Sequence[StoredResource]:
        await self._unit.connection.execute(self._statements.lock)
        return await _read(self._unit, self._statements)

    async def save(self, row: StoredResource) -> None:
        body = None if row.document is None else json.dumps(row.document)
        values = {"name": row.name, "generation": row.generation, "document": body}
        statement = self._statements.insert if row.generation == 1 else self._statements.update
        if (await self._unit.connection.execute(statement, values)).rowcount != 1:
            raise Conflict(f"{self._kind.noun} {row.name}: generation {row.generation - 1} is not what is stored")
        await self._unit.connection.execute(_TELL, {"channel": news_channel(self._kind.service)})


class PostgresResourceStore:
    """slackwater.resources.store.ResourceStore."""

    def __init__(self, database: Database, kind: Kind) -> None:
        """Raises InvalidInput for a table's name that would need quoting."""
        self._database = database
        self._kind = kind
        self._statements = _statements(schema_of(kind.table))

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[_Transaction]:
        async with self._database.unit_of_work() as unit:
            yield _Transaction(unit, self._kind, self._statements)

    async def read_all(self) -> Sequence[StoredResource]:
        async with self._database.unit_of_work() as unit:
            return await _read(unit, self._statements)


async def _read(unit: UnitOfWork, statements: _Statements) -> Sequence[StoredResource]:
    return [document_of_row(row) for row in await unit.connection.execute(statements.read)]


def document_of_row(row: Any) -> StoredResource:
    """Returns a stored row as a document. A row that is not a JSON object becomes an empty
    document, which no kind accepts: it is reported, and the kind keeps its last good generation.
    """
    document = row.document if row.document is None or isinstance(row.document, dict) else {}
    return StoredResource(row.name, row.generation, document, row.changed_at)


def create_resource_table(op: Any, table: str) -> None:
    """For a migration."""
    op.execute(
        f"""
        CREATE TABLE {schema_of(table)} (
            name text PRIMARY KEY,
            generation bigint NOT NULL,
            document jsonb,
            changed_at timestamptz NOT NULL DEFAULT now()
        )
        """
    )
