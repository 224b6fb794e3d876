"""Schedules the closing of windows: soon after a report has started the next one, and periodically for all nodes."""

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
    """One round of closing; runs in a loop."""

    def __init__(self, close: CloseWindows, clock: Clock, seconds: int, phase: Phase) -> None:
        self._close = close
        self._clock = clock
        self._seconds = seconds
        self._phase = phase
        self._window_over = asyncio.Event()
        self._over: set[str] = set()
        """Nodes whose reports have started another window since the last round."""
        self._all_closed_at = -math.inf

    def on_report(self, before: KnownNode, after: KnownNode) -> None:
        """Marks a node as due when its report starts the next window, because the one before is then complete."""
        if begins_window(before.newest_at, after.newest_at, self._seconds, self._phase(after.name)):
            self._over.add(after.name)
            self._window_over.set()

    def restart(self) -> None:
        """Makes all nodes due in the next round."""
        self._all_closed_at = -math.inf

    async def __call__(self) -> None:
        """Waits until windows are due and closes those that end together.

        Periodically all nodes are due, because reports may be missing or have stopped, or an earlier round failed.
        Raises Unavailable, Conflict.
        """
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
