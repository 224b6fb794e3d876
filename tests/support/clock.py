"""A clock that only tests advance."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Sized
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)


class FakeClock:
    """Wall and monotonic time advance together, only through `advance`. Sleepers wake in order of their deadlines."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        await future

    async def advance(self, seconds: float) -> None:
        """Advance the time. Every due sleeper runs, in order, before this returns."""
        target = self._elapsed + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            deadline, _, future = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, deadline)
            if not future.done():
                future.set_result(None)
            await _settle()
        self._elapsed = target
        await _settle()


class LoopClock:
    """The time of the running event loop, which may be virtual; the wall clock stands at `start` at its zero."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _settle(turns: int = 20) -> None:
    """Let started and woken tasks run until they sleep. A chain of more than `turns` steps needs another call.

    Ends where the loop has nothing else to run, which it says nowhere but in `_ready`. Turns for nothing cost tests of
    quota, descheduler, agent, migration and kubernetes 7 of 60 s of CPU.
    """
    ready: Sized | None = getattr(asyncio.get_running_loop(), "_ready", None)
    for _ in range(turns):
        await asyncio.sleep(0)
        if ready is not None and not ready:
            return
