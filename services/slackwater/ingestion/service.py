"""The composition root of ingestion."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from slackwater.bus.admin.streams import load
from slackwater.ingestion.adapters.blocks import PostgresBlockBook
from slackwater.ingestion.adapters.postgres import PostgresUsageLedger
from slackwater.ingestion.domain.liveness import LivenessLimits
from slackwater.ingestion.domain.validation import ReportLimits
from slackwater.ingestion.domain.windowing import aligned, staggered
from slackwater.ingestion.edge.block_routes import block_router
from slackwater.ingestion.edge.checks import dependencies
from slackwater.ingestion.edge.events import ON_REPORTED, accepting, consumers
from slackwater.ingestion.edge.http import window_router
from slackwater.ingestion.edge.node_routes import node_router
from slackwater.ingestion.metrics import IngestionMetrics
from slackwater.ingestion.settings import IngestionSettings
from slackwater.ingestion.usecases.accept_reports import AcceptReports
from slackwater.ingestion.usecases.block_agents import AnnounceBlocks, BlockAgents
from slackwater.ingestion.usecases.close_due_windows import CloseDueWindows
from slackwater.ingestion.usecases.close_windows import CloseWindows
from slackwater.ingestion.usecases.consumer_lag import ConsumerLag
from slackwater.ingestion.usecases.count_nodes import CountNodes
from slackwater.ingestion.usecases.delete_nodes import DeleteNodes, ExpireNodes
from slackwater.ingestion.usecases.describe_node import DescribeNode
from slackwater.ingestion.usecases.keep_history import KeepHistory
from slackwater.ingestion.usecases.read_windows import ReadWindows
from slackwater.ingestion.usecases.silence import Silence
from slackwater.ingestion.usecases.watch_liveness import WatchLiveness
from slackwater.ingestion.usecases.window_traces import WindowTraces
from slackwater.runtime.loops import RETRY_SECONDS, Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.telemetry.metrics import process_meters

HISTORY_SECONDS, COUNT_SECONDS, ANNOUNCE_SECONDS, EXPIRE_SECONDS = 3600.0, 10.0, 60.0, 10.0


class IngestionService(ReplicatedService):
    """Accepts reports, closes windows and updates liveness."""

    def __init__(self, settings: IngestionSettings, platform: Platform) -> None:
        replica = Replica("ingestion", platform)
        database, clock, quarantine = replica.database, replica.clock, replica.quarantine
        working, seconds, days = replica.partitions.working, settings.window_seconds, settings.retention_days
        gone = timedelta(seconds=max(settings.gone_seconds, settings.lost_seconds))
        meter, ledgers = IngestionMetrics(process_meters()), PostgresUsageLedger.remembering(quarantine)
        limits = ReportLimits(settings.clock_ahead_seconds, settings.clock_behind_seconds)
        silent = LivenessLimits(settings.report_interval_seconds, settings.stale_intervals, settings.lost_seconds)
        phase = staggered(seconds) if settings.stagger_windows else aligned
        lag, traces = ConsumerLag(clock), WindowTraces(seconds, phase)
        close = CloseWindows(
            database,
            ledgers,
            clock,
            meter,
            working,
            seconds=seconds,
            lateness_seconds=settings.lateness_seconds,
            silence_seconds=max(silent.stale_seconds, settings.lateness_seconds),
            phase=phase,
            traces=traces,
            received_until=lag.until,
            quarantine=quarantine,
        )
        due = CloseDueWindows(close, clock, seconds, phase)
        liveness = WatchLiveness(database, ledgers, clock, silent, replica.bus.connected, working, lag.until)
        silence = Silence(close, due, liveness, load().consumers[ON_REPORTED].ack_wait_seconds)
        accept = AcceptReports(database, ledgers, clock, limits, meter, due.on_report, lag.record, quarantine)
        reports = accepting(accept, traces, clock)
        read = ReadWindows(database, ledgers, clock, seconds=seconds, retention_days=days, phase=phase)
        delete = DeleteNodes(replica.unfenced, ledgers, clock, silent.lost_seconds)
        blocks = BlockAgents(replica.unfenced, PostgresBlockBook, ledgers, clock)
        self.announce = announce = AnnounceBlocks(database, PostgresBlockBook, working, quarantine)

        def every(seconds: float, work: Callable[[], Awaitable[object]]) -> Repeat:
            return Repeat(
                work=work,
                clock=clock,
                seconds=seconds,
                missed="store away",
                retry_seconds=RETRY_SECONDS,
                interrupted=silence.restart,
            )

        super().__init__(
            replica,
            load=[silence.begin],
            state=silence,
            consumers=consumers(DescribeNode(database, ledgers), reports, settings.batch),
            leaving=reports.leave,
            loops={
                "windows": every(0.0, due),
                "liveness": every(settings.liveness_tick_seconds, liveness),
                "blocks": every(ANNOUNCE_SECONDS, announce),
                "counts": every(
                    COUNT_SECONDS,
                    CountNodes(database, ledgers, meter, clock=clock, lost_for=gone),
                ),
                "expiry": every(EXPIRE_SECONDS, ExpireNodes(database, ledgers, clock, working, gone)),
                "history": every(HISTORY_SECONDS, KeepHistory(database, ledgers, clock, days)),
            },
            dependencies=partial(dependencies, replica),
            routers=lambda: [window_router(read), block_router(blocks), node_router(delete)],
        )


def build(settings: IngestionSettings, platform: Platform) -> IngestionService:
    """Builds ingestion on PostgreSQL and the process's metrics."""
    return IngestionService(settings, platform)
