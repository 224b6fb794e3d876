"""The way out: facts first and in order until the bus has them, reports in a bounded buffer that drops the oldest."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from slackwater.bus.port import Bus
from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class Outgoing:
    """One queue per agent. Nothing here ever blocks a sample or a write to the machine."""

    def __init__(self, bus: Bus, clock: Clock, capacity: int, lost: Callable[[], None] = lambda: None) -> None:
        self._lost = lost
        self._bus = bus
        self._clock = clock
        self._capacity = capacity
        self._facts: OrderedDict[str, tuple[Event[Any], Callable[[], None] | None]] = OrderedDict()
        self._reports: deque[Event[UsageReported]] = deque()
        self._wake = asyncio.Event()
        self.dropped = 0
        self.away = False

    def __len__(self) -> int:
        return len(self._facts) + len(self._reports)

    def fact(self, key: str, event: Event[Any], stored: Callable[[], None] | None = None) -> None:
        """Publish for sure. A newer fact under the same key takes the place of one that still waits."""
        self._facts[key] = (event, stored)
        self._wake.set()

    def report(self, event: Event[UsageReported]) -> None:
        """Publish if the bus comes back soon enough; otherwise the oldest is dropped and counted."""
        if len(self._reports) >= self._capacity:
            self._reports.popleft()
            self.dropped += 1
            self._lost()
        self._reports.append(event)
        self._wake.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            await self._wake.wait()
            try:
                await self._publish_next()
            except Unavailable as error:
                if not self.away:
                    _log.warning("bus away", waiting=len(self), error=error.message)
                self.away = True
                await self._clock.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)
                continue
            if self.away:
                _log.info("bus back", dropped_reports=self.dropped)
            self.away = False
            pause = _FIRST_PAUSE
            if not len(self):
                self._wake.clear()

    async def flush(self) -> None:
        """Publish what waits, once; raises Unavailable when the bus is away."""
        while len(self):
            await self._publish_next()

    async def _publish_next(self) -> None:
        if self._facts:
            key, (event, stored) = next(iter(self._facts.items()))
            await self._bus.publish(event)
            if key in self._facts and self._facts[key][0] is event:  # not replaced while it was on its way
                del self._facts[key]
            if stored is not None:
                stored()
        elif self._reports:
            event = self._reports[0]
            await self._bus.publish(event)
            if self._reports and self._reports[0] is event:  # not dropped meanwhile
                self._reports.popleft()
