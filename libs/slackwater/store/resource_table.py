"""The resources of one kind in a table of a service's schema, and their history. A change locks the table against
other changes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import TextClause, text

from slackwater.model.bounds import EARLIEST
from slackwater.model.errors import Conflict
from slackwater.resources.changed_event import changed_event
from slackwater.resources.kind import Kind
from slackwater.resources.store import KEPT_GENERATIONS, PastGeneration, StoredResource
from slackwater.store.names import news_channel, readable_time, schema_of
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.tables import Operations

SHARED_TABLE: Final = "resources"
_TELL: Final = text("SELECT pg_notify(:channel, 'policy')")


_CHANGED_AT: Final = readable_time("changed_at")
_INTO_HISTORY: Final = "INSERT INTO resource_history (kind, name, generation, document, author, changed_at)"
_HISTORY: Final = text(
    f"SELECT generation, document, author, {_CHANGED_AT} AS changed_at FROM resource_history"  # noqa: S608 - constants
    " WHERE kind = :kind AND name = :name ORDER BY generation DESC LIMIT :most"
)


@dataclass(frozen=True, slots=True)
class _Statements:
    lock: TextClause
    read: TextClause
    insert: TextClause
    update: TextClause
    record_missing: TextClause


def _statements(kind: Kind) -> _Statements:
    """Returns the statements of a kind. Kinds without a table of their own share one, by kind and name."""
    table, is_shared = schema_of(kind.table or SHARED_TABLE), not kind.table
    of_kind = "kind = :kind" if is_shared else "true"
    key, values = ("kind, name", ":kind, :name") if is_shared else ("name", ":name")
    stored = "name, generation, document, changed_at"
    insert = (
        f"INSERT INTO {table} ({key}, generation, document)"  # noqa: S608 - a checked name
        f" VALUES ({values}, :generation, CAST(:document AS jsonb)) ON CONFLICT ({key}) DO NOTHING"
    )
    update = (
        f"UPDATE {table} SET generation = :generation, document = CAST(:document AS jsonb),"  # noqa: S608 - a checked name
        f" changed_at = now() WHERE {of_kind} AND name = :name AND generation = :generation - 1"
    )
    return _Statements(
        text(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"),
        text(
            f"SELECT name, generation, document, {_CHANGED_AT} AS changed_at FROM {table}"  # noqa: S608 - a checked name
            f" WHERE {of_kind} ORDER BY name"
        ),
        _recorded(f"{insert} RETURNING {stored}"),
        _recorded(f"{update} RETURNING {stored}"),
        text(
            f"{_INTO_HISTORY} SELECT :kind, name, generation, document,"  # noqa: S608 - a checked name
            f" coalesce(document -> 'metadata' ->> 'changedBy', ''), changed_at FROM {table} AS present"
            f" WHERE {of_kind} AND NOT EXISTS (SELECT FROM resource_history AS known WHERE known.kind = :kind"
            " AND known.name = present.name AND known.generation = present.generation)"
            f" RETURNING name, generation, document, {_CHANGED_AT} AS changed_at"
        ),
    )


def _recorded(change: str) -> TextClause:
    """Returns one statement that changes a row, records it in the history and drops the oldest generation there."""
    return text(
        f"WITH saved AS ({change}), recorded AS ({_INTO_HISTORY}"  # noqa: S608 - constants and a checked name
        " SELECT :kind, name, generation, document, :author, changed_at FROM saved"
        " ON CONFLICT (kind, name, generation) DO UPDATE SET document = excluded.document, author = excluded.author,"
        " changed_at = excluded.changed_at), dropped AS (DELETE FROM resource_history"
        " WHERE kind = :kind AND name = :name AND generation <= :generation - :most)"
        f" SELECT {_CHANGED_AT} AS changed_at FROM saved"
    )


class _Transaction:
    def __init__(self, unit: UnitOfWork, kind: Kind, statements: _Statements) -> None:
        self.unit = self._unit = unit
        self._kind = kind
        self._statements = statements

    async def read_all(self) -> Sequence[StoredResource]:
        await self._unit.connection.execute(self._statements.lock)
        return await _read(self._unit, self._kind, self._statements)

    async def save(self, row: StoredResource) -> None:
        values = {
            "kind": self._kind.name,
            "name": row.name,
            "generation": row.generation,
            "document": None if row.document is None else json.dumps(row.document),
            "author": row.author,
            "most": KEPT_GENERATIONS,
        }
        statement = self._statements.insert if row.generation == 1 else self._statements.update
        saved = (await self._unit.connection.execute(statement, values)).first()
        if saved is None:
            raise Conflict(f"{self._kind.noun} {row.name}: generation {row.generation - 1} is not what is stored")
        await self._unit.publish(changed_event(self._kind, row, saved.changed_at))
        await self._unit.connection.execute(_TELL, {"channel": news_channel(self._kind.service)})

    async def record_missing(self) -> int:
        await self._unit.connection.execute(self._statements.lock)
        found = await self._unit.connection.execute(self._statements.record_missing, {"kind": self._kind.name})
        rows = [document_of_row(row) for row in found.all()]
        for row in rows:
            await self._unit.publish(changed_event(self._kind, row, row.changed_at or EARLIEST))
        return len(rows)


class PostgresResourceStore:
    """slackwater.resources.store.ResourceStore."""

    def __init__(self, database: Database, kind: Kind) -> None:
        """Raises InvalidInput for a table's name that would need quoting."""
        self._database = database
        self._kind = kind
        self._statements = _statements(kind)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[_Transaction]:
        async with self._database.unit_of_work() as unit:
            yield _Transaction(unit, self._kind, self._statements)

    async def read_all(self) -> Sequence[StoredResource]:
        async with self._database.unit_of_work() as unit:
            return await _read(unit, self._kind, self._statements)

    async def history(self, name: str) -> Sequence[PastGeneration]:
        wanted = {"kind": self._kind.name, "name": name, "most": KEPT_GENERATIONS}
        async with self._database.unit_of_work() as unit:
            rows = (await unit.connection.execute(_HISTORY, wanted)).all()
        return [PastGeneration(row.generation, _object(row.document), row.author, row.changed_at) for row in rows]

    async def record_missing(self) -> int:
        async with self.changing() as transaction:
            return await transaction.record_missing()


async def _read(unit: UnitOfWork, kind: Kind, statements: _Statements) -> Sequence[StoredResource]:
    return [document_of_row(row) for row in await unit.connection.execute(statements.read, {"kind": kind.name})]


def document_of_row(row: Any) -> StoredResource:
    """Returns a stored row as a document. A row that is not a JSON object becomes an empty
    document, which no kind accepts: it is reported, and the kind keeps its last good generation.
    """
    return StoredResource(row.name, row.generation, _object(row.document), row.changed_at)


def _object(document: Any) -> Mapping[str, Any] | None:
    return document if document is None or isinstance(document, dict) else {}


def create_resource_table(op: Operations, table: str) -> None:
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
