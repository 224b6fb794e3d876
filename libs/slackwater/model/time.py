"""Time as an argument: domain functions get `now`, everything that waits gets a Clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations and leases, and the only way to wait."""

    def now(self) -> datetime:
        """Aware UTC time, for records and messages."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for leases, ages and timeouts."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a fake clock returns when the test has moved time far enough."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
