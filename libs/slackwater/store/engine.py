"""One service's connection pool, and its Database."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import asyncpg
from sqlalchemy import event, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.model.time import Clock
from slackwater.store.commit_notifier import CommitNotifier
from slackwater.store.driver_errors import connecting, translated
from slackwater.store.leases import PostgresLeases
from slackwater.store.names import schema_of
from slackwater.store.outbox import BACKLOG, OutboxRelay
from slackwater.store.port import Backlog, Fence, Publish
from slackwater.store.server_watch import ServerWatch, answers
from slackwater.store.sessions import Dial, engine_of, session_of
from slackwater.store.unit_of_work import FenceCheck, PostgresUnitOfWork

_POOL_SIZE, _POOL_OVERFLOW = 4, 2
POOL_LIMIT = _POOL_SIZE + _POOL_OVERFLOW
"""Sessions kept open: as many as a busy service uses at once. Sessions beyond are closed after use.
One more is reserved for leases and health, which no exhausted pool may delay.

A new session costs a PostgreSQL process and 4.5 ms of CPU, half of it in this process (100 empty
ones), before statements are prepared again. With two kept, a console at 2,000 nodes opened two per
second.
"""
_CONNECT_SECONDS, _CHECKOUT_SECONDS = 5.0, 10.0
_REST_SECONDS = 1.0
_USED_AT = "slackwater used at"
STATEMENT_SECONDS = 30
IDLE_SECONDS = 5
"""Idle limit of a transaction. Beyond it the client is assumed stalled, and its locks end with its
lease.
"""
_TAKES_WRITES = text("SELECT current_setting('transaction_read_only') = 'off'")
_HAS_OUTBOX = text("SELECT to_regclass('outbox') IS NOT NULL")


@dataclass(frozen=True, slots=True)
class Connections:
    """Sessions of one pool: in use, idle in the pool, and requests for one that wait or connect."""

    in_use: int
    idle: int
    waiting: int = 0


def session_settings(service: str) -> dict[str, str]:
    """Returns the settings of every session of a service."""
    return {
        "application_name": f"slackwater-{service}",
        "search_path": schema_of(service),
        "statement_timeout": f"{STATEMENT_SECONDS}s",
        "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
        "timezone": "UTC",
        "jit": "off",
    }


class PostgresDatabase:
    """slackwater.store.port.Database on PostgreSQL. Connects on first use, and again after the
    server returns. `dial` opens the sessions of relays and leases, which are not of the pool; `watch` (None: none)
    ends the sessions of the pool when the server is silent. `reserve` (None: the pool) has one session.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        dsn: str,
        service: str,
        clock: Clock,
        fence: Fence | None = None,
        notifier: CommitNotifier | None = None,
        dial: Dial = asyncpg.connect,
        watch: ServerWatch | None = None,
        reserve: AsyncEngine | None = None,
    ) -> None:
        self._watch = watch
        self._reserve = reserve or engine
        self._fence = fence
        self._dial = dial
        self._notifier = notifier or CommitNotifier()
        self._engine = engine
        self._dsn = dsn
        self._service = service
        self._clock = clock
        self._has_outbox = False

    def unit_of_work(self) -> AbstractAsyncContextManager[PostgresUnitOfWork]:
        return self._unit_of_work(None if self._fence is None else FenceCheck(self._fence))

    @asynccontextmanager
    async def _unit_of_work(self, guard: FenceCheck | None) -> AsyncIterator[PostgresUnitOfWork]:
        async with AsyncExitStack() as stack:
            stack.enter_context(translated())
            with connecting():
                connection = await stack.enter_async_context(session_of(self._engine, self._watch))
            unit = PostgresUnitOfWork(connection, self._service, self._notifier, guard)
            yield unit
            await unit.flush()
            await connection.commit()
            unit.committed()  # and only then the session goes back, by way of a task of its own

    async def ping(self) -> bool:
        try:
            with connecting():
                async with session_of(self._reserve, self._watch) as connection:
                    takes_writes = bool((await connection.execute(_TAKES_WRITES)).scalar())
                    if not takes_writes:
                        await connection.invalidate()  # the next one may lead to another server
                    return takes_writes
        except Unavailable:
            return False

    async def backlog(self) -> Backlog | None:
        """Returns the outbox backlog; None for a schema without an outbox. Raises Unavailable."""
        with connecting():
            async with session_of(self._reserve, self._watch) as connection:
                self._has_outbox = self._has_outbox or bool((await connection.execute(_HAS_OUTBOX)).scalar())
                if not self._has_outbox:
                    return None
                depth, age, refused = (await connection.execute(text(BACKLOG))).one()
        return Backlog(depth, max(0.0, age), refused)

    def connections(self) -> Connections:
        """Returns the current sessions of this process's pool."""
        pool = self._engine.pool
        assert isinstance(pool, QueuePool)  # noqa: S101 - what create_async_engine makes
        waiting = self._watch.checkouts if self._watch is not None else 0
        return Connections(pool.checkedout(), pool.checkedin(), waiting)

    def relay(self, publish: Publish) -> OutboxRelay:
        about = (self._clock, self._fence, self.backlog, self._notifier, self._dial, self._watch)
        return OutboxRelay(self._dsn, self._service, publish, *about)

    def leases(self, member: str) -> PostgresLeases:
        return PostgresLeases(self._dsn, self._service, member, self._dial)

    def fenced(self, fence: Fence) -> PostgresDatabase:
        return self._over(self._engine, fence)

    def reserved(self) -> PostgresDatabase:
        return self._over(self._reserve, self._fence)

    def _over(self, engine: AsyncEngine, fence: Fence | None) -> PostgresDatabase:
        about = (self._dsn, self._service, self._clock, fence, self._notifier, self._dial, self._watch, self._reserve)
        return PostgresDatabase(engine, *about)

    async def close(self) -> None:
        if self._watch is not None:
            await self._watch.close()
        await self._engine.dispose()
        await self._reserve.dispose()


def connect_database(dsn: str, service: str, clock: Clock) -> PostgresDatabase:
    """Returns the schema of `service` over a small pool. `dsn` is the address of the service's own
    role (names.service_dsn).

    Raises InvalidInput for an address that is not `postgresql://…`; opens no connection yet.
    """
    if urlsplit(dsn).scheme not in ("postgresql", "postgres"):
        raise InvalidInput("dsn: must begin with postgresql://", field="dsn")
    watch = ServerWatch(partial(answers, dsn), clock)
    engine = _pool(dsn, service, watch, _POOL_SIZE, _POOL_OVERFLOW)
    return PostgresDatabase(engine, dsn, service, clock, watch=watch, reserve=_pool(dsn, service, watch, 1, 0))


def _pool(dsn: str, service: str, watch: ServerWatch, size: int, overflow: int) -> AsyncEngine:
    engine = engine_of(
        dsn,
        watch=watch,
        timeout_seconds=_CONNECT_SECONDS,
        settings=session_settings(service),
        pool_size=size,
        max_overflow=overflow,
        pool_timeout=_CHECKOUT_SECONDS,
        pool_use_lifo=True,
    )
    _ask_after_a_rest(engine)
    return engine


def _ask_after_a_rest(engine: AsyncEngine) -> None:
    """Pings an idle session at checkout, so that a server restart is found there and not within a
    unit of work. A recently used session is not pinged: pings took 4.9 % of prediction's time.
    """

    @event.listens_for(engine.sync_engine, "checkin")
    def note(_: object, record: ConnectionPoolEntry) -> None:
        record.info[_USED_AT] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def ask(driver: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
        used_at = record.info.get(_USED_AT)
        if used_at is None or time.monotonic() - used_at < _REST_SECONDS:
            return
        try:
            engine.dialect.do_ping(driver)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError("the session has ended") from error
