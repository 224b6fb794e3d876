"""Copies every service's schema, with a hash that shows whether two databases hold the same rows.

`pg_dump` and `pg_restore` do the work. The hash is computed in the snapshot that is dumped, so a
restore is compared with the state of that moment, not with later writes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg

from slackwater.model.errors import Conflict, Misconfigured, Unavailable
from slackwater.store.driver_errors import connecting
from slackwater.store.names import schema_of
from slackwater.store.tls_proxy import reachable

TableHashes = Mapping[str, str]
"""`schema.table` → `rows:sum of row hashes`; the order of rows does not matter."""

_TABLES = """
SELECT schemaname AS schema, tablename AS name FROM pg_tables WHERE schemaname = ANY($1::text[]) ORDER BY 1, 2
"""
_VERSION = re.compile(rb"\(PostgreSQL\) (\d+)")


async def dump(admin_dsn: str, services: Sequence[str], file: Path, binaries: Path | None) -> dict[str, str]:
    """Write the schemas of these services to a file (pg_dump's custom form) and return the hash of each table.

    Raises Unavailable, Misconfigured (no pg_dump that is new enough).
    """
    schemas = [schema_of(service) for service in services]
    async with _snapshot(admin_dsn) as (connection, snapshot):
        hashes = await _hashes(connection, schemas)
        chosen = [argument for schema in schemas for argument in ("--schema", schema)]
        tool = await _tool("pg_dump", binaries, connection)
        await _run(tool, admin_dsn, "--format=custom", "--snapshot", snapshot, *chosen, "--file", str(file))
    return hashes


async def refuse_tables(admin_dsn: str, services: Sequence[str]) -> None:
    """Raises Conflict when one of the schemas holds tables, Unavailable. A database that does not
    exist holds none.
    """
    with connecting():
        try:
            connection = await asyncpg.connect(admin_dsn, timeout=5)
        except asyncpg.InvalidCatalogNameError:
            return
        try:
            await _refuse_tables(connection, [schema_of(service) for service in services])
        finally:
            await connection.close()


async def _refuse_tables(connection: asyncpg.Connection[Any], schemas: Sequence[str]) -> None:
    tables = await connection.fetch(_TABLES, schemas)
    if tables:
        raise Conflict(
            f"the database already holds tables, for example {tables[0]['schema']}.{tables[0]['name']}; "
            "restore into an empty database"
        )


async def load(admin_dsn: str, services: Sequence[str], file: Path, binaries: Path | None) -> None:
    """Restore the schemas, owned by their services' roles, which must exist. All or nothing.

    Raises Conflict when one of the schemas holds tables already, Unavailable, Misconfigured.
    """
    schemas = [schema_of(service) for service in services]
    with connecting():
        connection = await asyncpg.connect(admin_dsn, timeout=5)
        try:
            await _refuse_tables(connection, schemas)
            for schema in schemas:
                await connection.execute(f"DROP SCHEMA IF EXISTS {schema}")
            tool = await _tool("pg_restore", binaries, connection)
        finally:
            await connection.close()
    await _run(tool, admin_dsn, "--single-transaction", "--exit-on-error", str(file))


async def table_hashes(admin_dsn: str, services: Sequence[str]) -> dict[str, str]:
    """Returns the current rows and hash of each table. Raises Unavailable."""
    async with _snapshot(admin_dsn) as (connection, _):
        return await _hashes(connection, [schema_of(service) for service in services])


def state_hash(hashes: TableHashes) -> str:
    """Returns one SHA-256 over all tables."""
    return hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest()


@asynccontextmanager
async def _snapshot(dsn: str) -> AsyncIterator[tuple[asyncpg.Connection[Any], str]]:
    with connecting():
        connection = await asyncpg.connect(dsn, timeout=5)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                await connection.execute("SET LOCAL timezone = 'UTC'")  # times are hashed as text
                yield connection, await connection.fetchval("SELECT pg_export_snapshot()")
        finally:
            await connection.close()


async def _hashes(connection: asyncpg.Connection[Any], schemas: Sequence[str]) -> dict[str, str]:
    hashes = {}
    for table in await connection.fetch(_TABLES, list(schemas)):
        name = f"{table['schema']}.{table['name']}"
        row = await connection.fetchrow(
            "SELECT count(*) AS rows, coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)::text AS sum "  # noqa: S608 - names from the catalogue, quoted
            f'FROM "{table["schema"]}"."{table["name"]}" t'
        )
        assert row is not None  # noqa: S101 - an aggregate has a row
        hashes[name] = f"{row['rows']}:{row['sum']}"
    return hashes


async def _tool(name: str, binaries: Path | None, connection: asyncpg.Connection[Any]) -> str:
    """Returns a client of the server's major version, else a newer one; an older one refuses the
    server.

    A newer one can dump any server, but cannot restore into one older than 17, because it sets
    parameters unknown there.
    """
    major = connection.get_server_version().major
    versions: dict[int, str] = {}
    for path in filter(None, (str(binaries / name) if binaries else None, shutil.which(name))):
        process = await asyncio.create_subprocess_exec(path, "--version", stdout=asyncio.subprocess.PIPE)
        answer, _ = await process.communicate()
        version = _VERSION.search(answer)
        if version and int(version[1]) >= major:
            versions.setdefault(int(version[1]), path)
    if versions:
        return versions[min(versions)]
    raise Misconfigured(
        f"no {name} of version {major} or newer: install the PostgreSQL client, or pip install 'slackwater[embedded]'"
    )


async def _run(tool: str, dsn: str, *arguments: str) -> None:
    """Run a tool with the password in its environment: arguments are visible to every user of the
    machine.
    """
    parts = urlsplit(dsn)
    environment = dict(os.environ)
    if parts.password:
        environment["PGPASSWORD"] = unquote(parts.password)
    login, at, host = parts.netloc.rpartition("@")
    where = parts._replace(netloc=f"{login.partition(':')[0]}{at}{host}").geturl()
    async with reachable(where) as address:
        process = await asyncio.create_subprocess_exec(
            tool, "--dbname", address, *arguments, env=environment, stderr=asyncio.subprocess.PIPE
        )
        _, complaint = await process.communicate()
    if process.returncode:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:]
        raise Unavailable(f"{Path(tool).name} failed ({process.returncode}): {' '.join(last)}")
