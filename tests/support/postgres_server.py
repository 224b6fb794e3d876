"""Fixtures with a real PostgreSQL: one server per test session, one database per test."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import pytest_asyncio
from tests.support.servers import Servers, postgres_container

from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.store.migrations import Schema
from slackwater.store.names import service_dsn
from slackwater.store.provision import prepare_database

FreshDatabase = Callable[[Sequence[Schema | str]], Awaitable[dict[str, str]]]
"""`addresses = await fresh_database(["ingestion"])`: a new database with these schemas at head. Returns their DSNs."""

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server(test_servers: Servers, servers_home: Path) -> Iterator[EmbeddedPostgres | None]:
    """The session's embedded server; None if the tests use another one. Tests must not kill it."""
    if test_servers.kind != "embedded":
        yield None
        return
    with EmbeddedPostgres(servers_home / "postgres", durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_dsn(test_servers: Servers, postgres_server: EmbeddedPostgres | None) -> Iterator[str]:
    """The administrator's address of a running server; its database may not exist yet."""
    if postgres_server is not None:
        yield postgres_server.dsn
    elif test_servers.kind == "containers":
        with postgres_container() as dsn:
            yield dsn
    else:
        yield test_servers.postgres_dsn


@pytest.fixture(scope="session")
def postgres_templates() -> dict[tuple[Schema, ...], str]:
    """Template databases by set of migrated schemas."""
    return {}


@pytest_asyncio.fixture
async def fresh_database(
    postgres_dsn: str, postgres_templates: dict[tuple[Schema, ...], str]
) -> AsyncIterator[FreshDatabase]:
    """Creates databases for one test from a migrated template and drops them afterwards."""
    made: list[str] = []
    admin = await asyncpg.connect(_at(postgres_dsn, "postgres"))

    async def fresh(services: Sequence[Schema | str]) -> dict[str, str]:
        schemas = tuple(one if isinstance(one, Schema) else Schema.of(one) for one in services)
        if schemas not in postgres_templates:
            template = f"template_{os.getpid()}_{next(_NUMBERS)}"
            await prepare_database(_at(postgres_dsn, template), schemas)
            postgres_templates[schemas] = template
        name = f"test_{os.getpid()}_{next(_NUMBERS)}"
        await _copy(admin, postgres_templates[schemas], name)
        made.append(name)
        return {schema.service: service_dsn(_at(postgres_dsn, name), schema.service) for schema in schemas}

    try:
        yield fresh
    finally:
        for name in made:
            await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await admin.close()


async def _copy(admin: asyncpg.Connection[asyncpg.Record], template: str, name: str) -> None:
    """Copy a template. It must have no sessions, and those of its migrations end shortly after their close."""
    for attempt in itertools.count(1):
        try:
            await admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        except asyncpg.ObjectInUseError:
            if attempt == 200:
                raise
            await asyncio.sleep(0.01)
        else:
            return


def _at(dsn: str, database: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{database}"))
