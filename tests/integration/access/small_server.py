"""An HTTP server in a process with few descriptors: `small_server.py DESCRIPTORS DSN`. Prints its URL."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import AsyncIterator

import asyncpg
from fastapi import Request
from sse_starlette import EventSourceResponse

from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings
from slackwater.telemetry import logs


def routes(dsn: str) -> Routes:
    router = Routes()

    @router.get("/postgres", role=Role.VIEWER)
    async def postgres() -> int:
        """Opens a connection, as a pool does that grows."""
        connection = await asyncpg.connect(dsn)
        try:
            return int(await connection.fetchval("SELECT 1"))
        finally:
            await connection.close()

    @router.post("/change", role=Role.OPERATOR)
    async def change(request: Request, dry_run: DryRun = False) -> int:
        return len(await request.body())

    @router.get("/stream", role=Role.VIEWER)
    async def stream() -> EventSourceResponse:
        async def ticks() -> AsyncIterator[dict[str, str]]:
            while True:
                yield {"data": "tick"}
                await asyncio.sleep(0.1)

        return EventSourceResponse(ticks())

    return router


async def serve(dsn: str) -> None:
    async def checks() -> list[Check]:
        return [Check("server", True)]

    settings = HttpSettings(port=0)
    server = HttpServer(settings)
    app = build_app([routes(dsn)], checks, settings)
    await server.run(app, lambda: print(server.url, flush=True))


if __name__ == "__main__":
    descriptors = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    logs.configure("small", form="json")
    asyncio.run(serve(sys.argv[2]))
