"""Ingestion's use cases around one database in memory, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry
from tests.support.clock import FakeClock
from tests.support.ingestion.ledger import Books
from tests.support.reports import received, report
from tests.support.store import MemoryDatabase

from slackwater.bus.consume.handlers import Verdicts
from slackwater.bus.consume.stats import Counters
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.ingestion.domain.liveness import LivenessLimits
from slackwater.ingestion.domain.validation import ReportLimits
from slackwater.ingestion.edge.events import ON_REPORTED, accepting
from slackwater.ingestion.metrics import IngestionMetrics
from slackwater.ingestion.usecases.accept_reports import AcceptReports
from slackwater.ingestion.usecases.close_windows import CloseWindows
from slackwater.ingestion.usecases.describe_node import DescribeNode
from slackwater.ingestion.usecases.keep_history import KeepHistory
from slackwater.ingestion.usecases.watch_liveness import WatchLiveness
from slackwater.ingestion.usecases.window_traces import WindowTraces
from slackwater.model.nodes import Liveness
from slackwater.telemetry.metrics import Meters

WINDOW, LATENESS = 60, 5.0
SILENCE = LivenessLimits(interval_seconds=5, stale_intervals=3, lost_seconds=60)


class World:
    """Ingestion's use cases around one in-memory database."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.database = MemoryDatabase()
        self.books = Books()
        self.hearing = True
        self.registry = CollectorRegistry()
        self.meter = IngestionMetrics(Meters(self.registry))
        ledgers = self.books.ledgers()
        accept = AcceptReports(self.database, ledgers, self.clock, ReportLimits(30, 900), self.meter)
        self.reports = accepting(accept, WindowTraces(WINDOW), self.clock)
        self.accept = Verdicts(ON_REPORTED, self.reports, Counters())
        self.describe = DescribeNode(self.database, ledgers)
        self.close = self.closer()
        self.watch = WatchLiveness(self.database, ledgers, self.clock, SILENCE, self._hearing)
        self.keep = KeepHistory(self.database, ledgers, self.clock, retention_days=2)

    def closer(self, received_until: Callable[[int], datetime] | None = None) -> CloseWindows:
        return CloseWindows(
            self.database,
            self.books.ledgers(),
            self.clock,
            self.meter,
            seconds=WINDOW,
            lateness_seconds=LATENESS,
            silence_seconds=SILENCE.stale_seconds,
            received_until=received_until,
        )

    async def _hearing(self) -> bool:
        return self.hearing

    async def report(self, sequence: int, node: str = "n", **changes: Any) -> Any:
        """One report sampled now; its settlement."""
        return (await self.accept([received(report(node, sequence, self.clock.now(), **changes))]))[0]

    def published(self, kind: type[Any]) -> list[Any]:
        return [event.data for event in self.database.published if isinstance(event.data, kind)]

    def liveness(self, node: str = "n") -> list[Liveness]:
        return [change.liveness for change in self.published(NodeLivenessChanged) if change.node == node]
