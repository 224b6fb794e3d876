"""Repeated work of a service: on a timer, or after a change. A database outage ends neither."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Works, pauses, repeats. After Conflict or Unavailable, `missed` is logged and the work is
    retried; any other exception ends the service.
    """

    work: Callable[[], Awaitable[object]]
    clock: Clock
    seconds: float | Callable[[], float]
    missed: str
    pause_first: bool = False
    retry_seconds: float | None = None
    """Pause after an outage; None: as after success."""
    interrupted: Callable[[], None] = lambda: None
    """Called at each outage."""

    async def __call__(self) -> None:
        if self.pause_first:
            await self.clock.sleep(self._pause())
        while True:
            pause = None
            try:
                await self.work()
            except (Conflict, Unavailable) as error:
                log.warning("repeated work met an outage", missed=self.missed, error=error.message)
                self.interrupted()
                pause = self.retry_seconds
            await self.clock.sleep(self._pause() if pause is None else pause)

    def _pause(self) -> float:
        return self.seconds() if callable(self.seconds) else self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """Works whenever `changed` is set. After Conflict or Unavailable, `missed` is logged and the
    work is retried.
    """

    work: Callable[[], Awaitable[object]]
    clock: Clock
    changed: asyncio.Event
    missed: str

    async def __call__(self) -> None:
        while True:
            await self.changed.wait()
            self.changed.clear()
            try:
                await self.work()
            except (Conflict, Unavailable) as error:
                log.warning("repeated work met an outage", missed=self.missed, error=error.message)
                await self.clock.sleep(RETRY_SECONDS)
                self.changed.set()


async def until_due(clock: Clock, changed: asyncio.Event, at: datetime | None) -> None:
    """Waits until `changed` is set or `at` has come (None: only for the change)."""
    if at is None:
        await changed.wait()
        return
    timer = asyncio.ensure_future(clock.sleep(max(0.0, (at - clock.now()).total_seconds())))
    news = asyncio.ensure_future(changed.wait())
    try:
        await asyncio.wait((timer, news), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
        news.cancel()
        await asyncio.gather(timer, news, return_exceptions=True)
