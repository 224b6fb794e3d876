"""Clocks of the world's machines: all follow virtual time, each with its own offset, rate and jumps."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)
EPOCH_SECONDS = EPOCH.timestamp()


class VirtualTime(Protocol):
    """What a clock needs of the loop."""

    def time(self) -> float: ...


class HostClock:
    """slackwater.model.time.Clock of one machine.

    The wall clock is EPOCH + `offset_seconds` + virtual time x `rate`; `jump` adds to the offset, as an operator or a
    time daemon does. The monotonic clock has the same rate and never jumps.
    """

    def __init__(self, time: VirtualTime, offset_seconds: float = 0.0, rate: float = 1.0, booted: float = 0.0) -> None:
        self._time = time
        self._rate = rate
        self._booted = booted
        self.offset_seconds = offset_seconds
        self._read_at, self._read = 0.0, EPOCH
        """The last reading: most callbacks of one moment ask for the same one."""

    def now(self) -> datetime:
        at = self._time.time() * self._rate + self.offset_seconds
        if at != self._read_at:
            self._read_at, self._read = at, EPOCH + timedelta(seconds=at)
        return self._read

    def seconds(self) -> float:
        """The wall clock in seconds since 1970."""
        return EPOCH_SECONDS + self._time.time() * self._rate + self.offset_seconds

    def monotonic(self) -> float:
        return self._booted + self._time.time() * self._rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate if seconds > 0 else 0)

    def jump(self, seconds: float) -> None:
        self.offset_seconds += seconds

    def drift(self, rate: float) -> None:
        """Go on at another rate from here; neither clock jumps."""
        virtual = self._time.time()
        self.offset_seconds += virtual * (self._rate - rate)
        self._booted += virtual * (self._rate - rate)
        self._rate = rate
