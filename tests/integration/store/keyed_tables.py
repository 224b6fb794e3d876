"""Tables of keyed rows as the conformance suite declares them: by version, by lock, and by what is newer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from slackwater.store.keyed import KeyedTable, RowColumn
from slackwater.store.port import Database


@dataclass(frozen=True)
class Row:
    """Of all three tables; `broken` is what no row was written as."""

    key: str
    version: int = 0
    amount: int = 0
    parts: tuple[int, ...] = ()


def _document(row: Row) -> str:
    return f'{{"amount": {row.amount}}}'


def _of_document(row: Any) -> Row:
    return Row(row.key, getattr(row, "version", 0), int(row.document["amount"]))


def parity_of(amount: int) -> str:
    return "odd" if amount % 2 else "even"


VERSIONED: KeyedTable[Row] = KeyedTable(
    name="keyed_versioned",
    key="key",
    kind="thing",
    version="version",
    columns=(RowColumn("document", "jsonb"), RowColumn("amount", "bigint")),
    key_of=lambda row: row.key,
    version_of=lambda row: row.version,
    encode=lambda row: (_document(row), row.amount),
    decode=_of_document,
    touched="changed_at",
)
LOCKED: KeyedTable[Row] = KeyedTable(
    name="keyed_locked",
    key="key",
    columns=(RowColumn("document", "jsonb"), RowColumn("amount", "bigint"), RowColumn("parity", "text")),
    key_of=lambda row: row.key,
    encode=lambda row: (_document(row), row.amount, parity_of(row.amount)),
    decode=_of_document,
    empty=Row,
    group="parity",
)
NEWER: KeyedTable[Row] = KeyedTable(
    name="keyed_newer",
    key="key",
    columns=(RowColumn("amount", "bigint"), RowColumn("parts", "bigint[]")),
    key_of=lambda row: row.key,
    encode=lambda row: (row.amount, "{" + ",".join(map(str, row.parts)) + "}"),
    decode=lambda row: Row(row.key, 0, row.amount, tuple(row.parts)),
    newer="amount",
)
SHARED: KeyedTable[Row] = KeyedTable(
    name="keyed_shared",
    key="key",
    kind="thing",
    version="version",
    columns=(RowColumn("document", "jsonb"), RowColumn("amount", "bigint")),
    key_of=lambda row: row.key,
    version_of=lambda row: row.version,
    encode=lambda row: (_document(row), row.amount),
    decode=_of_document,
    unreadable=lambda key, version, _: Row(key, version, -1),
    of_nodes=False,
    announced=True,
)
TABLES = (VERSIONED, LOCKED, NEWER, SHARED)
_CREATE = """
CREATE TABLE keyed_versioned (key text PRIMARY KEY, version bigint NOT NULL, document jsonb NOT NULL,
    amount bigint NOT NULL, changed_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE keyed_locked (key text PRIMARY KEY, document jsonb NOT NULL, amount bigint NOT NULL,
    parity text NOT NULL);
CREATE TABLE keyed_newer (key text PRIMARY KEY, amount bigint NOT NULL, parts bigint[] NOT NULL);
CREATE TABLE keyed_shared (key text PRIMARY KEY, version bigint NOT NULL, document jsonb NOT NULL,
    amount bigint NOT NULL)
"""


async def create_tables(database: Database) -> None:
    async with database.unit_of_work() as unit:
        for statement in _CREATE.split(";"):
            await unit.connection.execute(text(statement))


async def empty_tables(database: Database) -> None:
    async with database.unit_of_work() as unit:
        await unit.connection.execute(text(f"TRUNCATE {', '.join(table.name for table in TABLES)}, outbox, inbox"))
