"""On a timer: how many nodes are fresh, stale or lost."""

from __future__ import annotations

from slackwater.ingestion.ports import Ledgers, Meter
from slackwater.store.port import Database


class CountNodes:
    """For operators only: nothing is decided on it."""

    def __init__(self, database: Database, ledgers: Ledgers, meter: Meter) -> None:
        self._database = database
        self._ledgers = ledgers
        self._meter = meter

    async def __call__(self) -> None:
        """Raises Unavailable."""
        async with self._database.unit_of_work() as unit:
            self._meter.nodes(await self._ledgers(unit).count_by_liveness())
