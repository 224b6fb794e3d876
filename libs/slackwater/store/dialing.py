"""One way to dial PostgreSQL: the driver reads the address whole, `sslmode=verify-full&sslrootcert=…` included.

SQLAlchemy would hand what stands behind the `?` to the driver as arguments that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine


def engine_of(dsn: str, *, timeout_seconds: float, settings: Mapping[str, str], **options: Any) -> AsyncEngine:
    """An engine on `dsn`; every session is told `settings`. Opens nothing yet."""

    async def dial(*_: object, **__: object) -> asyncpg.Connection[Any]:
        return await asyncpg.connect(dsn, timeout=timeout_seconds, server_settings=dict(settings))

    return create_async_engine("postgresql+asyncpg://", async_creator=dial, **options)
