"""Keyed rows in PostgreSQL: one statement per operation, regardless of the number of rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from sqlalchemy import TextClause, text

from slackwater.model.errors import Conflict
from slackwater.store.keyed import UNREADABLE, KeyedTable, RowColumn, note_unreadable
from slackwater.store.names import news_channel, partition_of_sql, schema_of
from slackwater.store.port import RowChange, UnitOfWork
from slackwater.store.quarantine import Quarantine, described

T = TypeVar("T")
_ANNOUNCE = text("SELECT pg_notify(:channel, 'policy')")


@dataclass(frozen=True, slots=True)
class _Statements:
    read: TextClause
    read_all: TextClause
    of_partitions: TextClause
    group: TextClause
    page: TextClause
    lock: TextClause
    appear: TextClause
    update: TextClause
    upsert: TextClause
    insert_one: TextClause
    remove: TextClause
    update_one: str
    """Statement in the form of `RowChange`."""


@cache
def _statements(table: KeyedTable[Any]) -> _Statements:
    name, key = schema_of(table.name), schema_of(table.key)
    columns = [schema_of(column.name) for column in table.columns]
    selected = [
        f"CAST({c.name} AS text) AS {c.name}" if c.as_text else c.name for c in table.columns if not c.write_only
    ]
    version = [schema_of(table.version)] if table.version else []
    select = f"SELECT {', '.join([key, *version, *selected])} FROM {name}"  # noqa: S608 - checked names, as below
    given = ", ".join(f"CAST(:{c.name} AS {_sent(c)}[])" for c in table.columns)
    source = f"unnest(CAST(:keys AS text[]), {given}) AS new({', '.join([key, *columns])})"
    cast = [f"CAST(new.{c.name} AS {c.type})" for c in table.columns]
    touched = [f"{schema_of(table.touched)} = now()"] if table.touched else []
    insert = (
        f"INSERT INTO {name} ({', '.join([key, *columns])})"  # noqa: S608
        f" SELECT {', '.join([f'new.{key}', *cast])} FROM {source} ORDER BY 1"
    )
    assigned = ", ".join([*(f"{c} = {value}" for c, value in zip(columns, cast, strict=True)), *touched])
    excluded = ", ".join([*(f"{c} = excluded.{c}" for c in columns), *touched])
    newer = f" WHERE {name}.{table.newer} <= excluded.{table.newer}" if table.newer else ""
    values = [f"CAST(CAST(:value_{c.name} AS {_sent(c)}) AS {c.type})" for c in table.columns]
    set_one = [*(f"{v} = :row_written" for v in version), *(f"{c} = {v}" for c, v in zip(columns, values, strict=True))]
    return _Statements(
        text(f"{select} WHERE {key} = ANY(:keys) ORDER BY {key}"),
        text(f"{select} ORDER BY {key}"),
        text(f"{select} WHERE {partition_of_sql(key)} = ANY(CAST(:partitions AS int[])) ORDER BY {key}"),
        text(f"{select} WHERE {schema_of(table.group or table.key)} = :group ORDER BY {key}"),
        text(f"{select} WHERE {key} > :after ORDER BY {key} LIMIT :limit"),
        text(f"{select} WHERE {key} = ANY(:keys) ORDER BY {key} FOR UPDATE"),
        text(f"{insert} ON CONFLICT ({key}) DO NOTHING"),
        text(f"UPDATE {name} SET {assigned} FROM {source} WHERE {name}.{key} = new.{key}"),  # noqa: S608
        text(f"{insert} ON CONFLICT ({key}) DO UPDATE SET {excluded}{newer} RETURNING {key}"),
        text(
            f"INSERT INTO {name} ({', '.join([key, *version, *columns])})"  # noqa: S608
            f" VALUES ({', '.join([':row_key', *(':row_written' for _ in version), *values])})"
            f" ON CONFLICT ({key}) DO NOTHING"
        ),
        text(f"DELETE FROM {name} WHERE {key} = ANY(:keys)"),  # noqa: S608
        f"UPDATE {name} SET {', '.join([*set_one, *touched])}"  # noqa: S608
        f" WHERE {key} = :row_key{''.join(f' AND {v} = :row_read' for v in version)}",
    )


def _sent(column: RowColumn) -> str:
    """Returns the SQL type in which a column's values are sent as an array."""
    return "text" if column.type == "jsonb" or column.type.endswith("[]") else column.type


class PostgresKeyedRows(Generic[T]):
    """slackwater.store.keyed.KeyedRows."""

    def __init__(self, unit: UnitOfWork, service: str, table: KeyedTable[T], quarantine: Quarantine) -> None:
        self._unit = unit
        self._service = service
        self._table = table
        self._quarantine = quarantine
        self._statements = _statements(table)
        self._locked: set[str] = set()

    async def read(self, keys: Collection[str]) -> Mapping[str, T]:
        return await self._read(self._statements.read, {"keys": list(keys)})

    async def read_all(self, partitions: Collection[int] | None = None) -> Mapping[str, T]:
        if partitions is not None:
            return await self._read(self._statements.of_partitions, {"partitions": list(partitions)})
        problems: dict[str, str] = {}
        rows = await self._unit.connection.execute(self._statements.read_all)
        values = self._decoded(rows, problems)
        if not self._table.of_nodes:
            self._quarantine.follow(self._table.name, problems)
        return values

    async def read_group(self, value: str) -> Mapping[str, T]:
        return await self._read(self._statements.group, {"group": value})

    async def page(self, after: str, limit: int) -> Mapping[str, T]:
        while True:
            rows = await self._unit.connection.execute(self._statements.page, {"after": after, "limit": limit})
            page = rows.all()
            if (values := self._decoded(page)) or len(page) < limit:
                return values
            after = getattr(page[-1], self._table.key)

    async def column(self, key: str, name: str) -> Any:
        table = self._table
        statement = f"SELECT {schema_of(name)} FROM {schema_of(table.name)} WHERE {table.key} = :row_key"  # noqa: S608
        return (await self._unit.connection.execute(text(statement), {"row_key": key})).scalar_one_or_none()

    async def lock(self, keys: Collection[str]) -> Mapping[str, T]:
        """Lock the rows after inserting missing ones, so that two writers of a new key also wait
        for each other.
        """
        if not keys:
            return {}
        self._fence(keys)
        if self._table.empty is not None:
            await self._unit.connection.execute(
                self._statements.appear, self._many([self._table.empty(key) for key in sorted(keys)])
            )
        rows = (await self._unit.connection.execute(self._statements.lock, {"keys": list(keys)})).all()
        self._locked |= {getattr(row, self._table.key) for row in rows}
        return self._decoded(rows)

    async def write(self, values: Sequence[T]) -> set[str]:
        if not values:
            return set()
        ordered = sorted(values, key=self._table.key_of)
        keys = {self._table.key_of(value) for value in ordered}
        self._fence(keys)
        if keys <= self._locked:
            await self._unit.connection.execute(self._statements.update, self._many(ordered))
            return keys
        return set((await self._unit.connection.execute(self._statements.upsert, self._many(ordered))).scalars())

    async def insert(self, values: Sequence[T]) -> None:
        if not values:
            return
        ordered = sorted(values, key=self._table.key_of)
        self._fence(map(self._table.key_of, ordered))
        done = await self._unit.connection.execute(self._statements.appear, self._many(ordered))
        if done.rowcount != len(ordered):
            first, last = self._table.key_of(ordered[0]), self._table.key_of(ordered[-1])
            raise Conflict(f"{self._table.kind}: one of {len(ordered)} from {first} to {last} is stored already")

    async def replace(self, value: T, expected: int, *, last: bool = False) -> None:
        table, key = self._table, self._table.key_of(value)
        assert table.version_of is not None  # noqa: S101 - a defect of Slackwater
        self._fence([key])
        values = {"row_key": key, "row_written": table.version_of(value)}
        values |= {f"value_{c.name}": v for c, v in zip(table.columns, table.encode(value), strict=True)}
        missed = Conflict(f"{table.kind} {key}: {table.version} {expected} is not the one that is stored")
        if last and expected:
            self._unit.changes_last(RowChange(self._statements.update_one, values | {"row_read": expected}, missed))
            return
        statement = text(self._statements.update_one) if expected else self._statements.insert_one
        values |= {"row_read": expected} if expected else {}
        if (await self._unit.connection.execute(statement, values)).rowcount != 1:
            raise missed
        if table.announced:
            await self._unit.connection.execute(_ANNOUNCE, {"channel": news_channel(self._service)})

    async def remove(self, keys: Collection[str]) -> None:
        if keys:
            self._fence(keys)
            self._locked -= set(keys)
            await self._unit.connection.execute(self._statements.remove, {"keys": sorted(keys)})

    def _fence(self, keys: Iterable[str]) -> None:
        if self._table.of_nodes:
            self._unit.concerns(*keys)

    def _many(self, values: Sequence[T]) -> Mapping[str, Any]:
        encoded = [self._table.encode(value) for value in values]
        given = {c.name: [row[place] for row in encoded] for place, c in enumerate(self._table.columns)}
        return {"keys": [self._table.key_of(value) for value in values], **given}

    async def _read(self, statement: TextClause, values: Mapping[str, Any]) -> Mapping[str, T]:
        return self._decoded(await self._unit.connection.execute(statement, values))

    def _decoded(self, rows: Iterable[Any], problems: dict[str, str] | None = None) -> dict[str, T]:
        table, values = self._table, dict[str, T]()
        for row in rows:
            key = getattr(row, table.key)
            if table.skips_held and table.of_nodes and self._quarantine.holds_node(key):
                continue
            try:
                values[key] = table.decode(row)
            except UNREADABLE as error:
                if table.of_nodes or problems is None:
                    note_unreadable(table, key, error, _document(table, row), self._quarantine)
                else:
                    problems[key] = described(error)
                if table.unreadable is not None:
                    version = getattr(row, table.version) if table.version else 0
                    values[key] = table.unreadable(key, version, described(error))
        return values


def _document(table: KeyedTable[Any], row: Any) -> object:
    """Returns an unreadable row in the form shown to operators."""
    first = table.columns[0]
    value = getattr(row, first.name)
    return tuple(row) if first.type != "jsonb" else value if first.as_text else json.dumps(value)
