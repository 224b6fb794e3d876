"""Stores snapshots of all partitions, on a timer."""

from __future__ import annotations

from collections.abc import Callable

from slackwater.model.time import Clock
from slackwater.prediction.usecases.owned_partitions import OwnedPartitions

_PAUSE_FACTOR = 19.0
"""Limits snapshots to a twentieth of the time."""


class KeepSnapshots:
    """One round over the partitions. `kept` is called if at least one snapshot was stored."""

    def __init__(self, shares: OwnedPartitions, clock: Clock, seconds: float, kept: Callable[[], None]) -> None:
        self._shares = shares
        self._clock = clock
        self._seconds = seconds
        self._kept = kept
        self._took = 0.0

    def pause_seconds(self) -> float:
        """Seconds until the next round."""
        return max(self._seconds, self._took * _PAUSE_FACTOR)

    async def __call__(self) -> None:
        began = self._clock.monotonic()
        count = await self._shares.keep(list(self._shares))
        self._took = self._clock.monotonic() - began
        if count:
            self._kept()
