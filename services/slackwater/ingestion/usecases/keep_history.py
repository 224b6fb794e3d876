"""Creates partitions of history for the next days and drops those past retention, once an hour."""

from __future__ import annotations

from datetime import timedelta

from slackwater.ingestion.ports import Ledgers
from slackwater.model.time import Clock
from slackwater.store.port import Database


class KeepHistory:
    """Keeps `retention_days` full days besides today."""

    def __init__(self, database: Database, ledgers: Ledgers, clock: Clock, retention_days: int) -> None:
        self._database = database
        self._ledgers = ledgers
        self._clock = clock
        self._retention_days = retention_days

    async def __call__(self) -> None:
        """Creates and drops partitions. Raises Unavailable."""
        today = self._clock.now().date()
        async with self._database.unit_of_work() as unit:
            ledger = self._ledgers(unit)
            await ledger.keep_days([today + timedelta(days=offset) for offset in (-1, 0, 1, 2)])
            await ledger.delete_before(today - timedelta(days=self._retention_days))
