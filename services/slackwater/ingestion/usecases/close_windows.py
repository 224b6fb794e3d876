"""When windows have ended: make them from history, publish them, and mark them closed, in one transaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_windowed import UsageWindowed, WindowedPod, WindowedUsage
from slackwater.ingestion import metrics
from slackwater.ingestion.domain.windowing import Amounts, Window, closable_until, close_windows
from slackwater.ingestion.ports import Ledgers
from slackwater.ingestion.usecases.accept_reports import SOURCE
from slackwater.model.time import Clock
from slackwater.store.port import Database

_NODES_AT_ONCE = 100
CATCH_UP = timedelta(days=1)
"""After a longer absence older windows are not made any more: who folds them has moved on."""


class CloseWindows:
    """History is the only state: a window that was not committed is made again, one that was is behind its mark."""

    def __init__(
        self, database: Database, ledgers: Ledgers, clock: Clock, seconds: int, lateness_seconds: float
    ) -> None:
        self._database = database
        self._ledgers = ledgers
        self._clock = clock
        self._seconds = seconds
        self._lateness_seconds = lateness_seconds

    async def __call__(self) -> int:
        """Close everything that is due; returns how many windows. Raises Unavailable, having closed some or none."""
        until = closable_until(self._clock.now(), self._seconds, self._lateness_seconds)
        closed = 0
        while (done := await self._close_some(until)) is not None:
            closed += done
        return closed

    def seconds_to_next(self) -> float:
        """How long until another window may be closed."""
        now = self._clock.now()
        until = closable_until(now, self._seconds, self._lateness_seconds)
        return (until - now).total_seconds() + self._seconds + self._lateness_seconds

    async def _close_some(self, until: datetime) -> int | None:
        """The windows of some nodes; None when no node is open any more."""
        now = self._clock.now()
        async with self._database.unit_of_work() as unit:
            ledger = self._ledgers(unit)
            nodes = await ledger.open_nodes(until, _NODES_AT_ONCE)
            if not nodes:
                return None
            oldest = until - CATCH_UP
            since = min(node.closed_until or oldest for node in nodes)
            rows = await ledger.history([node.name for node in nodes], max(since, oldest), until)
            marks = {node.name: node.closed_until or oldest for node in nodes}
            rows = [row for row in rows if row.report.midpoint_at >= marks[row.report.node]]
            windows = close_windows(rows, self._seconds)
            for window in windows:
                await unit.publish(_event(window, now))
            await ledger.save([replace(node, closed_until=until) for node in nodes])
        metrics.WINDOWS.inc(len(windows))
        return len(windows)


def _event(window: Window, now: datetime) -> Event[UsageWindowed]:
    data = UsageWindowed(
        node=window.node,
        number=window.number,
        window_start=window.start,
        window_seconds=window.seconds,
        node_usage=_usage(window.usage),
        system_usage=None if window.system is None else _usage(window.system),
        tiers={str(tier): _usage(amounts) for tier, amounts in window.tiers.items()},
        pods=tuple(WindowedPod(pod=pod, usage=_usage(amounts)) for pod, amounts in window.pods),
        reports=window.reports,
        gaps=window.gaps,
    )
    return event_of(data, source=SOURCE, time=now)


def _usage(amounts: Amounts) -> WindowedUsage:
    cpu, memory = amounts.cpu, amounts.memory
    return WindowedUsage(
        cpu_avg_milli=cpu.avg,
        cpu_p90_milli=cpu.p90,
        cpu_p95_milli=cpu.p95,
        cpu_max_milli=cpu.max,
        memory_avg_bytes=memory.avg,
        memory_p90_bytes=memory.p90,
        memory_p95_bytes=memory.p95,
        memory_max_bytes=memory.max,
        samples=cpu.samples,
    )
