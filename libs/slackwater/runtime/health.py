"""Health of one process: /livez (the loop turns), /readyz (every check of every service), /version, /metrics."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Sequence

from fastapi import Query, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from slackwater.runtime.roles import OPEN, Role
from slackwater.runtime.routes import Routes
from slackwater.runtime.service import Check
from slackwater.runtime.version import version

CHECKS_SECONDS = 3.0
"""All checks together may take this long; a readiness probe that hangs tells nothing."""


def health_router(checks: Callable[[], Awaitable[Sequence[Check]]]) -> Routes:
    """The health endpoints over `checks`, which is asked anew for every /readyz."""
    router = Routes(tags=["health"])

    @router.get("/livez", role=OPEN, response_class=PlainTextResponse)
    async def livez() -> str:
        """The process answers. Never depends on PostgreSQL or NATS: restarting us would not bring them back."""
        return "ok\n"

    @router.get("/readyz", role=OPEN, response_class=PlainTextResponse)
    async def readyz(
        verbose: str | None = Query(None, description="give any value, or none, for the list"),
    ) -> Response:
        """Whether everything this process runs can work now; `?verbose` lists what was looked at."""
        found = await _within_time(checks)
        ready = all(check.ok for check in found)
        lines = [_line(check) for check in found if verbose is not None or not check.ok]
        lines.append("readyz check passed" if ready else "readyz check failed")
        return PlainTextResponse("\n".join(lines) + "\n", status_code=200 if ready else 503)

    @router.get("/version", role=Role.VIEWER)
    async def show_version() -> dict[str, str]:
        return {"version": version(), "python": platform.python_version()}

    @router.get("/metrics", role=Role.VIEWER, response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    return router


async def _within_time(checks: Callable[[], Awaitable[Sequence[Check]]]) -> Sequence[Check]:
    try:
        return await asyncio.wait_for(checks(), CHECKS_SECONDS)
    except TimeoutError:
        return [Check("checks", False, f"no answer within {CHECKS_SECONDS:.0f} s")]


def _line(check: Check) -> str:
    mark, word = ("[+]", "ok") if check.ok else ("[-]", "failed")
    return f"{mark}{check.name} {word}" + (f": {check.detail}" if check.detail else "")
