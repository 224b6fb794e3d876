"""How a session is dialled, and how it is given back.

The driver reads the address whole, `sslmode=verify-full&sslrootcert=…` included: SQLAlchemy would hand what stands
behind the `?` to the driver as arguments that it does not know.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine


def engine_of(dsn: str, *, timeout_seconds: float, settings: Mapping[str, str], **options: Any) -> AsyncEngine:
    """An engine on `dsn`; every session is told `settings`. Opens nothing yet."""

    async def dial(*_: object, **__: object) -> asyncpg.Connection[Any]:
        return await asyncpg.connect(dsn, timeout=timeout_seconds, server_settings=dict(settings))

    return create_async_engine("postgresql+asyncpg://", async_creator=dial, **options)


@asynccontextmanager
async def session_of(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A session of the pool, which has it back afterwards or ends it.

    Where the rollback fails and the driver does not say yet that the server is gone (its last word was read, its EOF
    not), SQLAlchemy gives nothing back: the session would keep its locks, and its place in the pool, until a garbage
    collection, and services collect rarely.
    """
    connection = engine.connect()
    try:
        async with connection:
            yield connection
    finally:
        if connection.sync_connection is not None and not connection.closed:
            await connection.invalidate()
