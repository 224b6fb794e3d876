"""Clocks: domain functions take `now` as an argument, components that wait take a Clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_NEXT = timedelta(microseconds=1)


def later_than(last: datetime | None, now: datetime) -> datetime:
    """Returns now, or just after `last`, the time of the same source before.

    Readers keep the newest event of a source by its time, and a clock that was ahead and is set back must not make them
    keep, or explain, an earlier one.
    """
    return now if last is None else max(now, last + _NEXT)


class Clock(Protocol):
    """Wall time for records, monotonic time for durations and leases, and sleeping."""

    def now(self) -> datetime:
        """Timezone-aware UTC time, for records and messages."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for leases, ages and timeouts."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds. A fake clock returns once the test has advanced its time that far."""
        ...


class SystemClock:
    """The clocks of the operating system."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
