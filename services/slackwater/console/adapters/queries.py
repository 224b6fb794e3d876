"""Statements in one short transaction each, bodies through the adapters of their shapes."""

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

_KEYS = ("event_id", "id", "decision_id", "name", "instance", "at")
"""Primary keys of the tables, as rows name them; `decision_id` is one only where no other is."""


class Queries:
    """Raises Unavailable when PostgreSQL does not answer."""

    def __init__(self, database: Database, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._quarantine = quarantine or unstored("console")

    async def ping(self) -> bool:
        return await self._database.ping()

    async def _write(self, *batches: tuple[TextClause, Sequence[Row]]) -> None:
        """All statements in one transaction; empty ones are left out. A statement takes its rows as `rows`, or each
        column of them as a list.

        Rows go in order of their key: two consoles may hold the same ones (a redelivery), and who waits for the other
        in another order waits for ever.
        """
        given = [(statement, _parameters(statement, sorted(rows, key=_key))) for statement, rows in batches if rows]
        if not given:
            return
        async with self._database.unit_of_work() as unit:
            for statement, parameters in given:
                await unit.connection.execute(statement, parameters)

    async def _execute(self, statement: TextClause, **parameters: Any) -> int:
        """One statement that changes something; how many rows it changed."""
        async with self._database.unit_of_work() as unit:
            return int((await unit.connection.execute(statement, parameters)).rowcount)

    async def _rows(self, statement: TextClause, **parameters: Any) -> Sequence[Any]:
        async with self._database.unit_of_work() as unit:
            return (await unit.connection.execute(statement, parameters)).all()

    async def _all(self, adapter: TypeAdapter[T], statement: TextClause, **parameters: Any) -> list[T]:
        rows = await self._rows(statement, **parameters)
        return self._readable(adapter, statement, (row[0] for row in rows))

    def _readable(self, adapter: TypeAdapter[T], statement: TextClause, bodies: Iterable[str]) -> list[T]:
        """Those that can be read; the others are noted, and left out of what is shown."""
        found = []
        for body in bodies:
            try:
                found.append(adapter.validate_json(body))
            except (ValueError, OverflowError, RecursionError) as error:
                unreadable = QuarantineReason.UNREADABLE
                self._quarantine.note(_table(statement), _name(body), error, reason=unreadable, document=body)
        return found

    async def _one(self, adapter: TypeAdapter[T], statement: TextClause, **parameters: Any) -> T | None:
        found = await self._all(adapter, statement, **parameters)
        return found[0] if found else None


def _table(statement: TextClause) -> str:
    """The first that it reads."""
    found = re.search(r"\bFROM (\w+)", statement.text)
    return found[1] if found else "read_model"


def _name(body: str) -> str:
    """What a body calls itself; a hash of one that does not."""
    for key in ("event_id", "id", "decision_id", "name", "document", "instance"):
        if found := re.search(rf'"{key}"\s*:\s*"([^"\\]{{1,100}})"', body or ""):
            return found[1]
    return hashlib.sha256(str(body).encode(errors="replace")).hexdigest()[:16]


def _key(row: Row) -> str:
    return str(next(row[name] for name in _KEYS if name in row))


def _parameters(statement: TextClause, rows: Sequence[Row]) -> dict[str, Any]:
    if ":rows" in statement.text:
        return {"rows": as_json(rows)}
    return {column: [row[column] for row in rows] for column in rows[0]}


def as_json(value: T, shape: TypeAdapter[T] | None = None) -> str:
    """As text; a number that is wider than 64 bits, which an unjudged report may hold, takes the slow way, for which
    anything but plain values needs its shape."""
    try:
        return msgspec.json.encode(value).decode()
    except OverflowError:
        return json.dumps(value if shape is None else shape.dump_python(value, mode="json"), ensure_ascii=False)
