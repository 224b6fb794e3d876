"""Publishes due predictions in every partition of this replica."""

from __future__ import annotations

from slackwater.model.errors import Fenced, Unavailable
from slackwater.model.time import Clock
from slackwater.prediction.metrics import CalibrationMetrics
from slackwater.prediction.usecases.owned_partitions import OwnedPartitions
from slackwater.prediction.usecases.publish_predictions import next_check, publish_predictions
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
"""Seconds between rounds; an acquired partition or a new pool is checked within the longest. Pools are checked each
20 s by default: shorter pauses wake an idle replica for nothing."""


class PublishDue:
    """One round over the partitions. A partition that cannot publish now does not delay the others."""

    def __init__(self, shares: OwnedPartitions, clock: Clock, meter: CalibrationMetrics) -> None:
        self._shares = shares
        self._clock = clock
        self._meter = meter
        self._logged: dict[str, str] = {}
        """Problems of models that were logged."""

    def pause_seconds(self) -> float:
        """Seconds until the next round."""
        waits = [next_check(living, self._clock) for living in self._shares]
        return min(max(min(waits, default=_LONGEST_PAUSE), _SHORTEST_PAUSE), _LONGEST_PAUSE)

    async def __call__(self) -> None:
        for living in self._shares:
            if next_check(living, self._clock) > 0:  # partitions take turns: most rounds are of one of them
                continue
            try:
                await publish_predictions(living, self._clock, self._meter)
            except (Fenced, Unavailable) as error:
                log.warning("predictions are published later", partition=living.partition, reason=error.message)
        self._log_problems()

    def problems(self) -> str:
        """Returns which models fail, and why, for the health check; the limits are used for these."""
        problems = sorted(self._shares.problems.items())
        return "; ".join(f"{model} {why}" for model, why in problems) or "every model answers"

    def _log_problems(self) -> None:
        """Logs each problem once."""
        problems = self._shares.problems
        for model, why in problems.items():
            if self._logged.get(model) != why:
                log.error("model lends nothing where it fails", model=model, reason=why)
        self._logged = problems
