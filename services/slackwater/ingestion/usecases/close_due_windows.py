"""When windows are closed: soon after a report has begun the next one, and now and then for all nodes."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress

from slackwater.ingestion.domain.reports import KnownNode
from slackwater.ingestion.domain.windowing import Phase, begins_window
from slackwater.ingestion.usecases.close_windows import CloseWindows
from slackwater.model.time import Clock

_GATHER_SECONDS = 0.2


class CloseDueWindows:
    """One round of closing; called in a loop."""

    def __init__(self, close: CloseWindows, clock: Clock, seconds: int, phase: Phase) -> None:
        self._close = close
        self._clock = clock
        self._seconds = seconds
        self._phase = phase
        self._window_over = asyncio.Event()
        self._over: set[str] = set()
        """Nodes whose reports have begun another window since the last round."""
        self._all_closed_at = -math.inf

    def on_report(self, before: KnownNode, after: KnownNode) -> None:
        """The window of a node is whole when a report begins the next one: it is due."""
        if begins_window(before.newest_at, after.newest_at, self._seconds, self._phase(after.name)):
            self._over.add(after.name)
            self._window_over.set()

    def restart(self) -> None:
        """The next round is for all nodes."""
        self._all_closed_at = -math.inf

    async def __call__(self) -> None:
        """Wait until windows are due, and gather those that end together. Now and then all nodes are due: of some,
        reports are missing or come no more, or an earlier round failed. Raises Unavailable, Conflict."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._close.pause_seconds):
                await self._window_over.wait()
        self._window_over.clear()
        over, self._over = self._over, set()
        if self._clock.monotonic() - self._all_closed_at >= self._close.pause_seconds:
            await self._close()
            self._all_closed_at = self._clock.monotonic()
        else:
            await self._close(over)
        await self._clock.sleep(_GATHER_SECONDS)
