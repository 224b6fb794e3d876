"""The composition root of colocation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from slackwater.colocation.adapters.metrics import ColocationMetrics
from slackwater.colocation.adapters.postgres import PostgresColocationStore
from slackwater.colocation.adapters.postgres_following import PostgresFollowerStore, strategy_store
from slackwater.colocation.edge.events import ON_DESCRIBED, ON_LIVENESS, ON_PEAKS, ON_USAGE, ColocationEvents
from slackwater.colocation.edge.strategy_news import StrategyNews
from slackwater.colocation.settings import ColocationSettings
from slackwater.colocation.usecases.full_pass import FullPass, Passed
from slackwater.colocation.usecases.recompute_offer import Offering, age_offers
from slackwater.colocation.usecases.strategies_in_force import StrategiesInForce, StrategyHooks
from slackwater.colocation.usecases.withdraw_offer import restore_offer, withdraw_offer
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.errors import Conflict, Unavailable
from slackwater.resources.catalog import COLOCATION_STRATEGY
from slackwater.resources.change import ChangeResources
from slackwater.runtime.ownership import Standing
from slackwater.runtime.platform import Platform
from slackwater.runtime.quarantine_routes import quarantine_check, quarantine_router
from slackwater.runtime.replicas import Together, ownership_check, ownership_of
from slackwater.runtime.resource_metrics import ResourceMetrics
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.runtime.sharding import Ownership
from slackwater.store.port import Database
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_table import PostgresQuarantine
from slackwater.telemetry.metrics import process_meters

if TYPE_CHECKING:
    from fastapi import APIRouter

from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
MOST_NAMED = 10


class ColocationService:
    """slackwater.runtime.service.Service. All state is in the store; a restart continues where it was."""

    name = "colocation"

    def __init__(
        self,
        settings: ColocationSettings,
        platform: Platform,
        database: Database,
        metrics: ColocationMetrics,
        ownership: Ownership,
    ) -> None:
        self._platform = platform
        self._metrics = metrics
        self._ownership = ownership
        self.quarantine = Quarantine(self.name, PostgresQuarantine(database, self.name), platform.clock)
        self._database = database = database.fenced(ownership)
        self._age_check_seconds = settings.age_check_seconds
        store = PostgresColocationStore(database, self.quarantine)
        meter = ResourceMetrics(
            process_meters(), self.name, COLOCATION_STRATEGY.name, "mostly a newer version wrote the document"
        )
        documents, nodes = strategy_store(database), PostgresFollowerStore(database, self.quarantine)
        hooks = StrategyHooks(settings.base(), nodes, platform.clock)
        self.strategies = StrategiesInForce(documents, hooks, meter)
        self._full_pass, self._full_pass_seconds = FullPass(), settings.full_pass_seconds
        self._offering = Offering(
            store, self.strategies, platform.clock, metrics.published, self._full_pass.decided, self.quarantine
        )
        self.quarantine.on_hold(partial(withdraw_offer, self._offering))
        self.quarantine.on_release(partial(restore_offer, self._offering))
        self._routers = (
            resource_router(ChangeResources(COLOCATION_STRATEGY, documents, self.strategies, hooks)),
            quarantine_router(self.quarantine),
        )
        self._news = StrategyNews(self._offering, self.strategies, nodes, ownership.working)
        ownership.on_news(self._news.tell)
        ownership.on_news(self.quarantine.tell)
        self.strategies.on_read(lambda problems: self.quarantine.follow("strategies", problems))

    async def run(self, started: Callable[[], None]) -> None:
        """Consume, relay and look at ages until cancelled."""
        await self.quarantine.load()
        await self.strategies.load()
        async with asyncio.TaskGroup() as group:
            works = (
                *(self._relay(), self._look_at_ages(), self._look_at_all()),
                *(self._news.read(), self._news.follow(), self.quarantine.run()),
            )
            tasks = [group.create_task(work) for work in works]
            try:
                await self._consume(started)
            finally:
                for task in tasks:
                    task.cancel()

    async def checks(self) -> Sequence[Check]:
        connected, answers = await asyncio.gather(self._platform.bus.connected(), self._database.ping())
        return [
            Check("colocation-bus", connected, "" if connected else "NATS does not answer"),
            Check("colocation-database", answers, "" if answers else "PostgreSQL does not answer, or takes no writes"),
            Check("colocation-strategies", True, self._news.said()),
            quarantine_check(self.quarantine),
            ownership_check(self._ownership),
        ]

    def standing(self) -> Standing | None:
        return self._ownership.standing()

    def routers(self) -> Sequence[APIRouter]:
        return self._routers

    async def _consume(self, started: Callable[[], None]) -> None:
        bus, holds, events = self._platform.bus, self._ownership.holds, ColocationEvents(self._offering)
        async with (
            bus.consume(NodeDescribed, ON_DESCRIBED, events.on_described, holds=holds) as descriptions,
            bus.consume(NodeLivenessChanged, ON_LIVENESS, events.on_liveness, holds=holds) as liveness,
            bus.consume(UsageWindowed, ON_USAGE, events.on_usage, holds=holds) as usage,
            bus.consume(PeakPredicted, ON_PEAKS, events.on_peaks, holds=holds) as peaks,
            self._ownership.owning(Together([self._news], [descriptions, liveness, usage, peaks])),
        ):
            started()
            await asyncio.Event().wait()

    async def _relay(self) -> None:
        await self._database.relay(self._platform.bus.carry).run()

    async def _look_at_ages(self) -> None:
        while True:
            await self._platform.clock.sleep(self._age_check_seconds)
            try:
                await age_offers(self._offering, self._ownership.working())
                self._metrics.totals(await self._offering.store.totals())
            except (Conflict, Unavailable) as error:
                log.warning("ages were not looked at", reason=error.message)

    async def _look_at_all(self) -> None:
        """Pass after pass, each spread over its time; the first begins when the events that waited have had theirs."""
        await self._platform.clock.sleep(self._full_pass_seconds)
        while True:
            passed = Passed()
            try:
                await self._full_pass.run(self._offering, self._ownership.working, self._full_pass_seconds, passed)
            except (Conflict, Unavailable) as error:
                log.warning("a full pass was broken off", reason=error.message)
            if not passed.looked:
                await self._platform.clock.sleep(self._full_pass_seconds)
            if passed.healed:
                log.warning("offers were healed", nodes=passed.healed[:MOST_NAMED], count=len(passed.healed))
            self._metrics.passed(passed.counts)


def build(settings: ColocationSettings, platform: Platform) -> ColocationService:
    """Colocation on PostgreSQL and the process's metrics."""
    database = platform.database(ColocationService.name)
    ownership = ownership_of(platform, ColocationService.name, database)
    return ColocationService(settings, platform, database, ColocationMetrics(process_meters()), ownership)
