"""Health of one process: /livez (the event loop runs, and no service crashes for ever), /readyz (every
check of every service), /version, /metrics.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import Query, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from slackwater.runtime.roles import OPEN, Role
from slackwater.runtime.routes import Routes
from slackwater.runtime.service import Check
from slackwater.runtime.version import version

CHECKS_SECONDS = 3.0
"""Timeout of all checks together; a readiness probe that hangs reports nothing."""


_NOT_ALIVE: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "What crashes for ever.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}
_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {"description": "What is not ready, a line each.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


def health_router(
    checks: Callable[[], Awaitable[Sequence[Check]]], unrecoverable: Callable[[], Sequence[str]] = tuple
) -> Routes:
    """Returns the health endpoints over `checks`, which is called for every /readyz, and over what only a new process
    can repair, which is asked for every /livez."""
    router = Routes(tags=["health"])

    @router.get("/livez", role=OPEN, response_class=PlainTextResponse, responses=_NOT_ALIVE)
    async def check_liveness() -> Response:
        """The process answers, and none of its services crashes again after every restart. Never depends on
        PostgreSQL or NATS: restarting this process would not bring them back.
        """
        if crashing := unrecoverable():
            return PlainTextResponse("".join(f"[-]{entry}\n" for entry in crashing), status_code=503)
        return PlainTextResponse("ok\n")

    @router.get("/readyz", role=OPEN, response_class=PlainTextResponse, responses=_NOT_READY)
    async def check_readiness(
        verbose: str | None = Query(None, description="give any value, or none, for the list"),
    ) -> Response:
        """Whether everything this process runs is ready; `?verbose` lists all checks, not only failures and
        warnings.
        """
        results = await _within_time(checks)
        ready = all(check.ok for check in results)
        lines = [_line(check) for check in results if verbose is not None or check.warns or not check.ok]
        lines.append("readyz check passed" if ready else "readyz check failed")
        return PlainTextResponse("\n".join(lines) + "\n", status_code=200 if ready else 503)

    @router.get("/version", role=Role.VIEWER)
    async def get_version() -> dict[str, str]:
        return {"version": version(), "python": platform.python_version()}

    @router.get("/metrics", role=Role.VIEWER, response_class=PlainTextResponse)
    async def get_metrics() -> Response:
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    return router


async def _within_time(checks: Callable[[], Awaitable[Sequence[Check]]]) -> Sequence[Check]:
    try:
        async with asyncio.timeout(CHECKS_SECONDS):
            return await checks()
    except TimeoutError:
        return [Check("checks", False, f"no answer within {CHECKS_SECONDS:.0f} s")]


def _line(check: Check) -> str:
    mark, status = ("[!]", "warning") if check.warns else ("[+]", "ok") if check.ok else ("[-]", "failed")
    return f"{mark}{check.name} {status}" + (f": {check.detail}" if check.detail else "")
