"""Dumps schemas as plain SQL, read from the catalogue, because a server from the wheels has no pg_dump.

    python tests/integration/upgrade/schema_dump.py DSN FOLDER SERVICE...

writes FOLDER/SERVICE.sql from a running database, with at most ROWS rows of each table.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg

ROWS = 12
WHOLE = {"alembic_version", "leases", "nodes", "node", "guarded_nodes", "snapshots", "published_windows"}
"""Tables dumped whole, because their rows refer to one another. Of a history the newest rows suffice."""

_TABLES = """
SELECT c.oid, c.relname AS name, c.relpersistence = 'u' AS unlogged, c.reloptions AS options,
       CASE c.relkind WHEN 'p' THEN pg_get_partkeydef(c.oid) END AS parted_by,
       p.relname AS parent, pg_get_expr(c.relpartbound, c.oid) AS bounds
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') ORDER BY c.relispartition, c.relname
"""
_COLUMNS = """
SELECT quote_ident(attname) AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS required,
       pg_get_expr(adbin, adrelid) AS value, attidentity::text AS identity, attgenerated::text AS generated,
       atttypid = 'bytea'::regtype AS bytes, atttypid = 'timestamptz'::regtype AS time
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_SEQUENCES = """
SELECT c.relname AS name, d.refobjid::regclass::text AS owner, a.attname AS "column", a.attidentity <> '' AS identity
FROM pg_class c LEFT JOIN pg_depend d ON d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0
LEFT JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'S' ORDER BY 1
"""
_CONSTRAINTS = """
SELECT conrelid::regclass::text AS "table", quote_ident(conname) AS name, pg_get_constraintdef(oid) AS definition
FROM pg_constraint WHERE connamespace = $1::regnamespace AND contype IN ('p', 'u', 'c', 'x') AND conislocal
AND conparentid = 0 ORDER BY conrelid::regclass::text, contype DESC, conname
"""
_INDEXES = """
SELECT pg_get_indexdef(i.indexrelid) AS definition FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = $1::regnamespace AND NOT c.relispartition
AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid) ORDER BY c.relname
"""
_FUNCTIONS = (
    "SELECT pg_get_functiondef(oid) AS definition FROM pg_proc WHERE pronamespace = $1::regnamespace ORDER BY 1"
)
_TRIGGERS = """
SELECT pg_get_triggerdef(t.oid) AS definition FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = $1::regnamespace AND NOT t.tgisinternal AND t.tgparentid = 0 ORDER BY 1
"""


async def definitions(sql: asyncpg.Connection[Any], schema: str) -> list[str]:
    """The statements that create the tables of a schema, in order. It is the search path of `sql`."""
    statements = [_sequence(row) for row in await sql.fetch(_SEQUENCES, schema) if not row["identity"]]
    tables = await sql.fetch(_TABLES, schema)
    statements += [_table(table, await sql.fetch(_COLUMNS, table["oid"])) for table in tables]
    statements += [
        _ownership(row) for row in await sql.fetch(_SEQUENCES, schema) if row["owner"] and not row["identity"]
    ]
    for query in (_CONSTRAINTS, _INDEXES, _FUNCTIONS, _TRIGGERS):
        for row in await sql.fetch(query, schema):
            add = f"ALTER TABLE {row['table']} ADD CONSTRAINT {row['name']} " if query is _CONSTRAINTS else ""
            statements.append(add + row["definition"])
    return [statement.replace(f"{schema}.", "") for statement in statements]


async def contents(sql: asyncpg.Connection[Any], schema: str, limit: int = ROWS) -> AsyncIterator[str]:
    """One statement for each row, and the next value of each sequence."""
    for table in await sql.fetch(_TABLES, schema):
        if table["parted_by"]:
            continue
        columns = [column for column in await sql.fetch(_COLUMNS, table["oid"]) if not column["generated"]]
        names = ", ".join(column["name"] for column in columns)
        override = " OVERRIDING SYSTEM VALUE" if any(column["identity"] for column in columns) else ""
        texts = " || ', ' || ".join(f"quote_nullable({column['name']}::text)" for column in columns)
        newest = next((f" ORDER BY {column['name']} DESC" for column in columns if column["time"]), "")
        end = "" if table["name"] in WHOLE else f"{newest} LIMIT {limit}"
        for row in await sql.fetch(f"SELECT {texts} FROM {table['name']}{end}"):  # noqa: S608 - names of the catalogue
            yield f"INSERT INTO {table['name']} ({names}){override} VALUES ({row[0]})"  # noqa: S608 - quoted by PostgreSQL
    for row in await sql.fetch(_SEQUENCES, schema):
        value = await sql.fetchval(f"SELECT last_value FROM {row['name']}")  # noqa: S608 - as above
        yield f"SELECT setval('{row['name']}', {value})"


def _table(table: asyncpg.Record, columns: list[asyncpg.Record]) -> str:
    options = f" WITH ({', '.join(table['options'])})" if table["options"] else ""
    head = f"CREATE {'UNLOGGED ' if table['unlogged'] else ''}TABLE {table['name']}"
    if table["parent"]:
        return f"{head} PARTITION OF {table['parent']} {table['bounds']}{options}"
    parted = f" PARTITION BY {table['parted_by']}" if table["parted_by"] else ""
    body = ",\n  ".join(map(_column, columns))
    return f"{head} (\n  {body}\n){parted}{options}"


def _column(column: asyncpg.Record) -> str:
    text = f"{column['name']} {column['type']}"
    if column["generated"]:
        return f"{text} GENERATED ALWAYS AS ({column['value']}) STORED"
    if column["identity"]:
        text += f" GENERATED {'ALWAYS' if column['identity'] == 'a' else 'BY DEFAULT'} AS IDENTITY"
    elif column["value"]:
        text += f" DEFAULT {column['value']}"
    return text + (" NOT NULL" if column["required"] else "")


def _sequence(sequence: asyncpg.Record) -> str:
    return f"CREATE SEQUENCE {sequence['name']}"


def _ownership(sequence: asyncpg.Record) -> str:
    return f"ALTER SEQUENCE {sequence['name']} OWNED BY {sequence['owner']}.{sequence['column']}"


async def session(dsn: str, schema: str) -> asyncpg.Connection[Any]:
    return await asyncpg.connect(dsn, server_settings={"search_path": schema})


async def main(dsn: str, folder: Path, services: list[str]) -> None:
    for service in services:
        sql = await session(dsn, service)
        async with sql.transaction(isolation="repeatable_read", readonly=True):
            lines = [*await definitions(sql, service), *[line async for line in contents(sql, service)]]
        await sql.close()
        (folder / f"{service}.sql").write_text("".join(f"{line};\n" for line in lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("dsn")
    parser.add_argument("folder", type=Path)
    parser.add_argument("services", nargs="+")
    asyncio.run(main(**vars(parser.parse_args())))
