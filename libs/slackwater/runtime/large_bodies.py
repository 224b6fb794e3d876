"""Large bodies are handled one at a time with pauses between them, so that an event loop stays free for control.

Parsing, checking and storing one takes an event loop some 0.25 ms for each kB. Without turns, ten clients that change
documents of 150 kB would take all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from slackwater.runtime.problems import problem

LARGE_BYTES: Final = 16_384
MOST_WAITING: Final = 8
LONGEST_PAUSE_SECONDS: Final = 1.0


class TooManyLargeBodies(HTTPException):
    """Raised where a body is read. HTTPException is the only kind that the framework passes through there."""

    def __init__(self) -> None:
        super().__init__(429)


class LargeBodies:
    """The turns of one application. A request waits for its turn when its body has arrived, so that a slow client
    holds up no other."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Handle one large body. The next one waits for as long again as this one took, at most a second. Raises
        TooManyLargeBodies if MOST_WAITING wait."""
        if self._waiting >= MOST_WAITING:
            raise TooManyLargeBodies
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            loop.call_later(min(loop.time() - began, LONGEST_PAUSE_SECONDS), self._turn.release)


async def too_many(request: Request, error: Exception) -> JSONResponse:
    """Returns the answer to TooManyLargeBodies."""
    detail = f"{MOST_WAITING} requests with bodies above {LARGE_BYTES} bytes wait already; nothing was changed"
    return problem(429, "too_many_large_bodies", detail, headers={"retry-after": "1"})
