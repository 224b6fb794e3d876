"""Runs statements in one short transaction each and parses bodies with the adapters of their shapes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from pydantic import TypeAdapter
from sqlalchemy import TextClause

from slackwater.events.state_quarantined import QuarantineReason
from slackwater.store.port import Database
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored

T = TypeVar("T")
Row = Mapping[str, Any]

_KEYS = ("event_id", "id", "decision_id", "name", "instance", "at", "job")
"""Primary keys of the tables, as rows name them; `decision_id` is one only if no other is present."""


class Queries:
    """Runs statements. Raises Unavailable when PostgreSQL does not answer."""

    def __init__(self, database: Database, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._quarantine = quarantine or unstored("console")

    async def ping(self) -> bool:
        return await self._database.ping()

    async def _write(self, *batches: tuple[TextClause, Sequence[Row]]) -> None:
        """Run all statements in one transaction; empty batches are left out. A statement takes its rows as `rows`, or
        each column of them as a list.

        Rows are sorted by key. Two consoles may write the same rows after a redelivery, and different lock orders would
        deadlock.
        """
        given = [(statement, _parameters(statement, sorted(rows, key=_key))) for statement, rows in batches if rows]
        if not given:
            return
        async with self._database.unit_of_work() as unit:
            for statement, parameters in given:
                await unit.connection.execute(statement, parameters)

    async def _execute(self, statement: TextClause, **parameters: Any) -> int:
        """Run one statement that changes rows; returns their number."""
        async with self._database.unit_of_work() as unit:
            return int((await unit.connection.execute(statement, parameters)).rowcount)

    async def _rows(self, statement: TextClause, **parameters: Any) -> Sequence[Any]:
        async with self._database.unit_of_work() as unit:
            return (await unit.connection.execute(statement, parameters)).all()

    async def _all(self, adapter: TypeAdapter[T], statement: TextClause, **parameters: Any) -> list[T]:
        rows = await self._rows(statement, **parameters)
        return self._readable(adapter, statement, (row[0] for row in rows))

    def _readable(self, adapter: TypeAdapter[T], statement: TextClause, bodies: Iterable[str]) -> list[T]:
        """The bodies that can be parsed; the others are quarantined and left out."""
        values = []
        for body in bodies:
            try:
                values.append(adapter.validate_json(body))
            except (ValueError, OverflowError, RecursionError) as error:
                unreadable = QuarantineReason.UNREADABLE
                self._quarantine.note(_table(statement), _name(body), error, reason=unreadable, document=body)
        return values

    async def _one(self, adapter: TypeAdapter[T], statement: TextClause, **parameters: Any) -> T | None:
        values = await self._all(adapter, statement, **parameters)
        return values[0] if values else None


def _table(statement: TextClause) -> str:
    """The first table that the statement reads."""
    match = re.search(r"\bFROM (\w+)", statement.text)
    return match[1] if match else "read_model"


def _name(body: str) -> str:
    """The name or id in a body; a hash of a body without one."""
    for key in ("event_id", "id", "decision_id", "name", "document", "instance"):
        if match := re.search(rf'"{key}"\s*:\s*"([^"\\]{{1,100}})"', body or ""):
            return match[1]
    return hashlib.sha256(str(body).encode(errors="replace")).hexdigest()[:16]


def _key(row: Row) -> str:
    return str(next(row[name] for name in _KEYS if name in row))


def _parameters(statement: TextClause, rows: Sequence[Row]) -> dict[str, Any]:
    if ":rows" in statement.text:
        return {"rows": as_json(rows)}
    return {column: [row[column] for row in rows] for column in rows[0]}


def as_json(value: T, shape: TypeAdapter[T] | None = None) -> str:
    """The value as JSON text. A number wider than 64 bits, possible in an unvalidated report, uses the slower
    serializer, which needs the shape for anything but plain values.
    """
    try:
        return msgspec.json.encode(value).decode()
    except OverflowError:
        return json.dumps(value if shape is None else shape.dump_python(value, mode="json"), ensure_ascii=False)
