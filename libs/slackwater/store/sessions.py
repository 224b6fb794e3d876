"""Opens and returns database sessions.

The driver parses the whole address, `sslmode=verify-full&sslrootcert=…` included: SQLAlchemy would
pass the query string to the driver as unknown arguments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import asyncpg
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from slackwater.store.driver_errors import is_read_only
from slackwater.store.server_watch import ServerWatch, server_of

Dial: TypeAlias = "Callable[..., Awaitable[asyncpg.Connection[Any]]]"
"""asyncpg.connect, or its double in a simulated world."""


def engine_of(
    dsn: str, *, timeout_seconds: float, settings: Mapping[str, str], watch: ServerWatch | None = None, **options: Any
) -> AsyncEngine:
    """Returns an engine on `dsn`; every session gets `settings` and belongs to `watch`. Opens no
    connection yet.
    """

    async def dial(*_: object, **__: object) -> asyncpg.Connection[Any]:
        session = await asyncpg.connect(dsn, timeout=timeout_seconds, server_settings=dict(settings))
        if watch is not None:
            watch.add(session, await server_of(session))
        return session

    engine = create_async_engine("postgresql+asyncpg://", async_creator=dial, **options)
    event.listens_for(engine.sync_engine, "handle_error")(_leave_a_read_only_server)
    return engine


def _leave_a_read_only_server(context: ExceptionContext) -> None:
    """Renews the sessions of the pool after a write was refused: after a failover the former primary may live on as a
    standby, and the address lead elsewhere.
    """
    context.is_disconnect = context.is_disconnect or is_read_only(context.original_exception)


@asynccontextmanager
async def session_of(engine: AsyncEngine, watch: ServerWatch | None = None) -> AsyncIterator[AsyncConnection]:
    """Yields a session of the pool, and returns it or closes it afterwards. Raises Unavailable or
    TimeoutError once `watch` finds the server silent.

    Where the rollback fails before the driver has noticed that the server is gone (its last message
    was read, its EOF not), SQLAlchemy does not return the session. It would keep its locks and its
    place in the pool until a garbage collection, which services run rarely.
    """
    connection = engine.connect()
    async with AsyncExitStack() as watched:
        if watch is not None:
            watch.require_answering()
            watched.enter_context(watch.used())
        try:
            async with AsyncExitStack() as stack:
                await _check_out(stack, connection, watch)
                try:
                    yield connection
                except asyncpg.ReadOnlySQLTransactionError:  # of a COPY, which the engine does not see
                    await connection.invalidate()
                    raise
        finally:
            if connection.sync_connection is not None and not connection.closed:
                await connection.invalidate()


async def _check_out(stack: AsyncExitStack, connection: AsyncConnection, watch: ServerWatch | None) -> None:
    if watch is None:
        await stack.enter_async_context(connection)
        return
    async with watch.checkout():
        await stack.enter_async_context(connection)
