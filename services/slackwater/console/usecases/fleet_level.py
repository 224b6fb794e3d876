"""Stores the level of the fleet every few seconds, so that charts over hours read no reports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from slackwater.console.domain.fleet import FRESH, LEVEL_SECONDS, FleetLevel
from slackwater.console.ports import ReadModel
from slackwater.model.time import Clock


class FleetLevelRecorder:
    """Levels have round times, so that two consoles that share a database store each of them once."""

    def __init__(self, model: ReadModel, clock: Clock, measure: Callable[[FleetLevel], None] | None = None) -> None:
        self._model = model
        self._clock = clock
        self._measure = measure

    async def __call__(self) -> bool:
        """Store the current level. False when no node has a fresh report, because then there is nothing to store."""
        now = self._clock.now()
        level = await self._model.level(now, now - FRESH)
        if self._measure is not None:
            self._measure(level)
        if not level.nodes:
            return False
        await self._model.save_level(level, round_time(now))
        return True

    def seconds_to_next(self) -> float:
        """Seconds until the next round time."""
        return LEVEL_SECONDS - self._clock.now().timestamp() % LEVEL_SECONDS


def round_time(moment: datetime) -> datetime:
    """The last multiple of LEVEL_SECONDS."""
    return datetime.fromtimestamp(moment.timestamp() // LEVEL_SECONDS * LEVEL_SECONDS, UTC)
