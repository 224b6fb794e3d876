"""Counts, on a timer, how many nodes are fresh, stale or lost."""

from __future__ import annotations

from datetime import timedelta

from slackwater.ingestion.metrics import IngestionMetrics
from slackwater.ingestion.ports import Ledgers
from slackwater.model.time import Clock
from slackwater.store.port import Database


class CountNodes:
    """Counts nodes for operators; no decision uses the counts. A removed node stays lost: after `lost_for` it is no
    longer counted, so that its alert ends.
    """

    def __init__(
        self, database: Database, ledgers: Ledgers, meter: IngestionMetrics, *, clock: Clock, lost_for: timedelta
    ) -> None:
        self._database = database
        self._ledgers = ledgers
        self._meter = meter
        self._clock = clock
        self._lost_for = lost_for

    async def __call__(self) -> None:
        """Updates the metric. Raises Unavailable."""
        async with self._database.unit_of_work() as unit:
            self._meter.nodes(await self._ledgers(unit).count_by_liveness(self._clock.now() - self._lost_for))
