"""Rebuilds a node's published windows from history, with the same reports and the same function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from slackwater.ingestion.domain.windowing import Phase, Window, aligned, heads, number_of, start_of
from slackwater.ingestion.domain.windowing_columnar import close_windows_columnar
from slackwater.ingestion.ports import Ledgers, UsageLedger
from slackwater.model.records import record
from slackwater.model.time import Clock
from slackwater.store.port import Database


@record(frozen=True, slots=True)
class WindowPage:
    """Windows in order of time. `behind` is the start of the next page, None on the last."""

    windows: Sequence[Window]
    behind: datetime | None


class ReadWindows:
    """Reads windows. Leaves out those past retention, and those that may still receive a report."""

    def __init__(
        self,
        database: Database,
        ledgers: Ledgers,
        clock: Clock,
        *,
        seconds: int,
        retention_days: int,
        phase: Phase = aligned,
    ) -> None:
        self._database = database
        self._ledgers = ledgers
        self._clock = clock
        self._seconds = seconds
        self._retention = timedelta(days=retention_days + 1)
        self._phase = phase

    async def __call__(self, node: str, since: datetime, until: datetime, limit: int) -> WindowPage:
        """Returns up to `limit` windows that lie within the span. Raises Unavailable."""
        now, phase = self._clock.now(), self._phase(node)
        earliest = max(min(since, now), now - self._retention)
        first = self._start(earliest + timedelta(seconds=self._seconds, microseconds=-1), phase)
        last = self._start(min(until, now - timedelta(seconds=self._seconds)), phase)
        end = min(last, first + timedelta(seconds=self._seconds) * limit)
        if end <= first:
            return WindowPage((), None)
        async with self._database.unit_of_work() as unit:
            windows = await windows_within(self._ledgers(unit), {node: (first, end)}, first, self._seconds, self._phase)
        return WindowPage(windows, end if end < last else None)

    def _start(self, moment: datetime, phase: int) -> datetime:
        """Returns the start of the window that contains `moment`."""
        return start_of(number_of(moment, self._seconds, phase), self._seconds, phase)


async def windows_within(
    ledger: UsageLedger, spans: Mapping[str, tuple[datetime, datetime]], oldest: datetime, seconds: int, phase: Phase
) -> Sequence[Window]:
    """Returns the windows within the span of each node, none before `oldest`."""
    if not spans:
        return ()
    history = await ledger.columns_within({node: (max(since, oldest), until) for node, (since, until) in spans.items()})
    before = await ledger.before(first, oldest) if (first := heads(history.rows)) else {}
    return close_windows_columnar(history, seconds, phase, before)
