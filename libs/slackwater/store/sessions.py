"""Opens and returns database sessions.

The driver parses the whole address, `sslmode=verify-full&sslrootcert=…` included: SQLAlchemy would
pass the query string to the driver as unknown arguments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

Dial: TypeAlias = "Callable[..., Awaitable[asyncpg.Connection[Any]]]"
"""asyncpg.connect, or its double in a simulated world."""


def engine_of(dsn: str, *, timeout_seconds: float, settings: Mapping[str, str], **options: Any) -> AsyncEngine:
    """Returns an engine on `dsn`; every session gets `settings`. Opens no connection yet."""

    async def dial(*_: object, **__: object) -> asyncpg.Connection[Any]:
        return await asyncpg.connect(dsn, timeout=timeout_seconds, server_settings=dict(settings))

    return create_async_engine("postgresql+asyncpg://", async_creator=dial, **options)


@asynccontextmanager
async def session_of(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Yields a session of the pool, and returns it or closes it afterwards.

    Where the rollback fails before the driver has noticed that the server is gone (its last message
    was read, its EOF not), SQLAlchemy does not return the session. It would keep its locks and its
    place in the pool until a garbage collection, which services run rarely.
    """
    connection = engine.connect()
    try:
        async with connection:
            yield connection
    finally:
        if connection.sync_connection is not None and not connection.closed:
            await connection.invalidate()
