"""Timers of the server: one heap, and one timer of the event loop for its earliest entry."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context


class Timers:
    """Runs callbacks at times of the event loop. A callback that is no longer due does nothing: none is cancelled."""

    def __init__(self) -> None:
        self.is_held = False
        """The server is frozen: what becomes due waits for `catch_up`."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._context = Context()
        """Empty: the server's own, not that of the process whose request set the timer."""

    def now(self) -> float:
        """Returns the time of the event loop."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        return loop.time()

    def at(self, when: float, callback: Callable[[], None]) -> None:
        """Run a callback at a time."""
        self._number += 1
        heapq.heappush(self._heap, (when, self._number, callback))
        if self._heap[0][0] == when:
            self._arm()

    def catch_up(self) -> None:
        """Run what is due."""
        if self._heap:
            self._arm()

    def _arm(self) -> None:
        loop = self._loop or asyncio.get_running_loop()
        self._loop = loop
        when = self._heap[0][0]
        if self._handle is not None:
            if self._handle.when() <= when and not self._handle.cancelled():
                return
            self._handle.cancel()
        self._handle = loop.call_at(when, self._fire, context=self._context)

    def _fire(self) -> None:
        now, heap, self._handle = self.now(), self._heap, None
        if self.is_held:
            return
        while heap and heap[0][0] <= now:
            heapq.heappop(heap)[2]()
        if heap:
            self._arm()
