"""slackwater.store's own code on the server in memory: units of work, outbox, inbox, leases and keyed rows are real."""

from __future__ import annotations

from typing import Any, cast

import asyncpg
from tests.support.link import DirectLink, Link
from tests.support.postgres_twin.driver import Connection, connect
from tests.support.postgres_twin.engine import TwinEngine, as_engine
from tests.support.postgres_twin.migrated import migrated
from tests.support.postgres_twin.server import Server

from slackwater.model.time import Clock, SystemClock
from slackwater.store.engine import IDLE_SECONDS, STATEMENT_SECONDS, PostgresDatabase
from slackwater.store.migrations import Schema

_POOLED = {"idle": float(IDLE_SECONDS), "statement": float(STATEMENT_SECONDS)}


def twin_database(
    server: Server, service: str, clock: Clock, *, link: Link | None = None, process: str = ""
) -> PostgresDatabase:
    """Returns one process's database: PostgresDatabase with a pool and a driver that reach the server by a link.

    `process` names the process for `Server.abandon_process`. `clock` is the process's own; the server has another.
    """
    way = link or DirectLink()

    async def dial_pooled() -> Connection:
        return await connect(server, service, way, process, _POOLED)

    async def dial(_: str, **__: Any) -> asyncpg.Connection[Any]:
        return cast("asyncpg.Connection[Any]", await connect(server, service, way, process, {}))

    engine = as_engine(TwinEngine(dial_pooled, clock))
    return PostgresDatabase(engine, "postgresql://twin", service, clock, dial=dial)


def twin_of(service: Schema | str, clock: Clock | None = None) -> PostgresDatabase:
    """Returns the database of one process beside a server of its own, with the service's schema at head."""
    schema = service if isinstance(service, Schema) else Schema.of(service)
    at = clock or SystemClock()
    server = Server(at)
    server.create(schema.service, migrated(schema))
    return twin_database(server, schema.service, at)
