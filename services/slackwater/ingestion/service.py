"""The composition root of ingestion."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from slackwater.bus.port import Bus
from slackwater.bus.streams import load
from slackwater.ingestion.adapters.blocks import PostgresBlockBook
from slackwater.ingestion.adapters.metrics import IngestionMetrics
from slackwater.ingestion.adapters.postgres import PostgresLedger
from slackwater.ingestion.domain.liveness import LivenessLimits
from slackwater.ingestion.domain.reports import KnownNode
from slackwater.ingestion.domain.validation import Limits
from slackwater.ingestion.domain.windowing import aligned, begins_window, staggered
from slackwater.ingestion.edge.events import ON_REPORTED, consuming
from slackwater.ingestion.ports import BlockBooks, Ledgers, Meter
from slackwater.ingestion.settings import IngestionSettings
from slackwater.ingestion.usecases.accept_reports import AcceptReports
from slackwater.ingestion.usecases.block_agents import AnnounceBlocks, BlockAgents
from slackwater.ingestion.usecases.close_windows import CloseWindows
from slackwater.ingestion.usecases.count_nodes import CountNodes
from slackwater.ingestion.usecases.describe_node import DescribeNode
from slackwater.ingestion.usecases.hearing import Hearing
from slackwater.ingestion.usecases.keep_history import KeepHistory
from slackwater.ingestion.usecases.read_windows import ReadWindows
from slackwater.ingestion.usecases.tracing import WindowTraces
from slackwater.ingestion.usecases.watch_liveness import WatchLiveness
from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.time import Clock
from slackwater.runtime.ownership import Lease, Standing
from slackwater.runtime.platform import Platform
from slackwater.runtime.quarantine_routes import quarantine_check, quarantine_router
from slackwater.runtime.replicas import Together, ownership_check, ownership_of
from slackwater.runtime.service import Check
from slackwater.runtime.sharding import Ownership
from slackwater.store.port import Database
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored
from slackwater.store.quarantine_table import PostgresQuarantine
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters

if TYPE_CHECKING:
    from fastapi import APIRouter

log = get_logger(__name__)

_MAINTENANCE_SECONDS = 3600.0
_COUNT_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_GATHER_SECONDS = 0.2
_BACKLOG_LIMIT_SECONDS = 30.0
_ANNOUNCE_SECONDS = 60.0


class IngestionService:
    """slackwater.runtime.service.Service."""

    name = "ingestion"

    def __init__(
        self,
        settings: IngestionSettings,
        bus: Bus,
        database: Database,
        ledgers: Ledgers,
        clock: Clock,
        meter: Meter,
        ownership: Ownership,
        blocks: BlockBooks = PostgresBlockBook,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.quarantine = quarantine or unstored(self.name)
        ownership.on_news(self.quarantine.tell)
        self._settings = settings
        self._bus = bus
        self._clock = clock
        self._ownership = ownership
        self._blocks = BlockAgents(database, blocks, ledgers, clock)
        database = database.fenced(ownership)
        self._announce = AnnounceBlocks(database, blocks, ownership.working, self.quarantine)
        self._relay = database.relay(bus.carry)
        limits = Limits(settings.clock_ahead_seconds, settings.clock_behind_seconds)
        silence = LivenessLimits(settings.report_interval_seconds, settings.stale_intervals, settings.lost_seconds)
        self._redelivery_seconds = load().consumers[ON_REPORTED].ack_wait_seconds
        self._phase = staggered(settings.window_seconds) if settings.stagger_windows else aligned
        self._window_over = asyncio.Event()
        self._over: set[str] = set()
        """Nodes whose reports have begun another window since the last look."""
        self._looked_at_all = -math.inf
        hearing = Hearing(clock)
        self._accept = AcceptReports(
            database, ledgers, clock, limits, meter, self._reported, hearing.took, self.quarantine
        )
        self._describe = DescribeNode(database, ledgers)
        self._traces = WindowTraces(settings.window_seconds, self._phase)
        self._close = CloseWindows(
            database,
            ledgers,
            clock,
            meter,
            ownership.working,
            seconds=settings.window_seconds,
            lateness_seconds=settings.lateness_seconds,
            silence_seconds=max(silence.stale_seconds, settings.lateness_seconds),
            phase=self._phase,
            traces=self._traces,
            heard_until=hearing.until,
            quarantine=self.quarantine,
        )
        self._read = ReadWindows(
            database,
            ledgers,
            clock,
            seconds=settings.window_seconds,
            retention_days=settings.retention_days,
            phase=self._phase,
        )
        self._liveness = WatchLiveness(
            database, ledgers, clock, silence, bus.connected, ownership.working, hearing.until
        )
        self._count = CountNodes(
            database, ledgers, meter, clock=clock, lost_for=timedelta(days=settings.retention_days)
        )
        self._keep = KeepHistory(database, ledgers, clock, settings.retention_days)

    async def run(self, started: Callable[[], None]) -> None:
        self._listen_anew()
        await self.quarantine.load()
        async with asyncio.TaskGroup() as tasks:
            own = [
                tasks.create_task(self.quarantine.run()),
                tasks.create_task(self._relay.run()),
                tasks.create_task(self._repeat(self._keep, _MAINTENANCE_SECONDS)),
                tasks.create_task(self._repeat(self._count, _COUNT_SECONDS)),
                tasks.create_task(self._repeat(self._announce, _ANNOUNCE_SECONDS)),
                tasks.create_task(self._repeat(self._close_due, 0.0)),
                tasks.create_task(self._repeat(self._liveness, self._settings.liveness_tick_seconds)),
            ]
            try:
                bus, batch, holds = self._bus, self._settings.batch, self._ownership.holds
                async with (
                    consuming(bus, self._accept, self._describe, self._traces, batch, holds) as readings,
                    self._ownership.owning(Together([self], readings)),
                ):
                    started()
                    try:
                        await asyncio.Event().wait()
                    finally:
                        self._accept.leave()
            finally:
                for task in own:
                    task.cancel()

    async def take(self, leases: Sequence[Lease]) -> None:
        """All state is in PostgreSQL. What the owner before us had in hand comes again when the broker has waited long
        enough for it: only from then on silence is the nodes', however short an interval they are expected to keep."""
        self._listen_anew(self._redelivery_seconds)
        self._looked_at_all = -math.inf

    async def give(self, leases: Sequence[Lease]) -> None:
        """Nothing is kept in memory."""

    def drop(self, partitions: Collection[int]) -> None:
        """Nothing is kept in memory."""

    async def checks(self) -> Sequence[Check]:
        connected = await self._bus.connected()
        bus = Check("ingestion-bus", connected, "" if connected else "NATS does not answer")
        try:
            backlog = await self._relay.backlog()
        except Unavailable as error:
            return (Check("database", ok=False, detail=error.message), bus)
        late = backlog.oldest_age_seconds > _BACKLOG_LIMIT_SECONDS
        said = f"{backlog.depth} events, oldest {backlog.oldest_age_seconds:.1f} s"
        outbox = Check("outbox", ok=not late, detail=said)
        aside = quarantine_check(self.quarantine)
        return (Check("database", ok=True), bus, outbox, ownership_check(self._ownership), aside)

    def standing(self) -> Standing | None:
        return self._ownership.standing()

    def routers(self) -> Sequence[APIRouter]:
        from slackwater.ingestion.edge.block_routes import block_router
        from slackwater.ingestion.edge.http import window_router

        return [window_router(self._read), block_router(self._blocks), quarantine_router(self.quarantine)]

    def _reported(self, before: KnownNode, after: KnownNode) -> None:
        """Wake the closing of windows when a report has begun the next one: the one before it is whole."""
        if begins_window(before.newest_at, after.newest_at, self._settings.window_seconds, self._phase(after.name)):
            self._over.add(after.name)
            self._window_over.set()

    async def _close_due(self) -> None:
        """When a window is over, those that end with it are gathered for a moment. Now and then all nodes are looked
        at: some reports are missing, or no more come, or we could not close what was over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._close.pause_seconds):
                await self._window_over.wait()
        self._window_over.clear()
        over, self._over = self._over, set()
        if self._clock.monotonic() - self._looked_at_all >= self._close.pause_seconds:
            await self._close()
            self._looked_at_all = self._clock.monotonic()
        else:
            await self._close(over)
        await self._clock.sleep(_GATHER_SECONDS)

    def _listen_anew(self, after_seconds: float = 0.0) -> None:
        self._liveness.listen_anew(after_seconds)
        self._close.listen_anew(after_seconds)

    async def _repeat(self, work: Callable[[], Awaitable[object]], pause_seconds: float) -> None:
        """Work, wait, work; while the store is away, ask again soon and do not take our silence for the nodes'."""
        while True:
            try:
                await work()
                seconds = pause_seconds
            except (Unavailable, Conflict) as error:
                log.warning("store away", error=error.message)
                self._listen_anew()
                seconds = _PAUSE_SECONDS
            await self._clock.sleep(seconds)


def build(settings: IngestionSettings, platform: Platform) -> IngestionService:
    """Ingestion on PostgreSQL and the process's metrics."""
    meter = IngestionMetrics(process_meters())
    database = platform.database("ingestion")
    quarantine = Quarantine("ingestion", PostgresQuarantine(database, "ingestion"), platform.clock)
    ledgers = PostgresLedger.remembering(quarantine)
    ownership = ownership_of(platform, "ingestion", database)
    return IngestionService(
        settings, platform.bus, database, ledgers, platform.clock, meter, ownership, quarantine=quarantine
    )
