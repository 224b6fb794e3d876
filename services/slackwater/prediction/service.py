"""The composition root of prediction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slackwater.bus.port import each
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.errors import Unavailable
from slackwater.prediction.adapters.metrics import PredictionMetrics
from slackwater.prediction.adapters.postgres import PostgresPredictionStore
from slackwater.prediction.edge.events import ON_DESCRIBED, PredictionEvents
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.state import LivingState
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Check
from slackwater.store.port import Database
from slackwater.telemetry.metrics import process_meters

if TYPE_CHECKING:
    from fastapi import APIRouter

from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


class PredictionService:
    """slackwater.runtime.service.Service. Every run starts from what the store holds."""

    name = "prediction"

    def __init__(
        self, settings: PredictionSettings, platform: Platform, database: Database, metrics: PredictionMetrics
    ) -> None:
        self._settings = settings
        self._platform = platform
        self._database = database
        self._metrics = metrics
        self._living: LivingState | None = None

    async def run(self, started: Callable[[], None]) -> None:
        """Restore, then replay and fold until cancelled, with a last snapshot on the way out."""
        living = await self._restored()
        background = (self._relay(), self._keep_snapshots(living))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each_task) for each_task in background]
            try:
                await self._consume(living, started)
            finally:
                for task in tasks:
                    task.cancel()
                await self._snapshot(living)

    async def checks(self) -> Sequence[Check]:
        connected, answers = await asyncio.gather(self._platform.bus.connected(), self._database.ping())
        living = self._living
        known = "not restored yet" if living is None else f"{len(living.models.rows)} series"
        return [
            Check("prediction-bus", connected, "" if connected else "NATS does not answer"),
            Check("prediction-database", answers, "" if answers else "PostgreSQL does not answer"),
            Check("prediction-state", living is not None, known),
        ]

    def routers(self) -> Sequence[APIRouter]:
        return []

    async def _restored(self) -> LivingState:
        living = LivingState(PostgresPredictionStore(self._database), self._settings.policy())
        restored = await living.restore()
        for why in restored.refused:
            self._metrics.snapshot("refused")
            log.warning("snapshot is not usable", reason=why)
        log.info("restored", position=restored.position, series=restored.series)
        self._living = living
        return living

    async def _consume(self, living: LivingState, started: Callable[[], None]) -> None:
        bus = self._platform.bus
        events = PredictionEvents(living, self._platform.clock, lambda new: self._metrics.folded(new, living))
        async with (
            bus.consume(NodeDescribed, ON_DESCRIBED, each(events.on_described)),
            bus.replay(UsageWindowed, events.on_windows, after_sequence=living.position),
        ):
            started()
            await asyncio.Event().wait()

    async def _relay(self) -> None:
        await self._database.relay(self._platform.bus.publish).run()

    async def _keep_snapshots(self, living: LivingState) -> None:
        while True:
            await self._platform.clock.sleep(self._settings.snapshot_seconds)
            await self._snapshot(living)

    async def _snapshot(self, living: LivingState) -> None:
        """A store that is away costs a longer replay, nothing else."""
        try:
            if await living.snapshot():
                self._metrics.snapshot("kept")
        except Unavailable as error:
            self._metrics.snapshot("failed")
            log.warning("snapshot was not kept", reason=error.message)


def build(settings: PredictionSettings, platform: Platform) -> PredictionService:
    """Prediction on PostgreSQL and the process's metrics."""
    database = platform.database(PredictionService.name)
    return PredictionService(settings, platform, database, PredictionMetrics(process_meters()))
