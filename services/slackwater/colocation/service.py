"""The composition root of colocation."""

from __future__ import annotations

from functools import partial

from slackwater.colocation.adapters.postgres import PostgresColocationStore
from slackwater.colocation.adapters.postgres_following import PostgresFollowerStore
from slackwater.colocation.edge.events import ColocationEvents
from slackwater.colocation.edge.strategy_news import StrategyNews
from slackwater.colocation.metrics import ColocationMetrics
from slackwater.colocation.settings import ColocationSettings
from slackwater.colocation.usecases.full_pass import FullPass
from slackwater.colocation.usecases.recompute_offer import Offering, age_offers
from slackwater.colocation.usecases.run_full_passes import RunFullPasses
from slackwater.colocation.usecases.strategies_in_force import StrategiesInForce, StrategyHooks
from slackwater.colocation.usecases.withdraw_offer import restore_offer, withdraw_offer
from slackwater.resources.change import ChangeResources
from slackwater.resources.kinds.colocation_strategy import COLOCATION_STRATEGY
from slackwater.runtime.loops import Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.resource_metrics import ResourceMetrics
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.telemetry.metrics import process_meters


class ColocationService(ReplicatedService):
    """Publishes the offers of nodes. All state is in the store, so a restart continues where the service stopped."""

    def __init__(self, settings: ColocationSettings, platform: Platform) -> None:
        replica = Replica("colocation", platform)
        clock, quarantine, working = replica.clock, replica.quarantine, replica.partitions.working
        metrics = ColocationMetrics(process_meters())
        store = PostgresColocationStore(replica.database, quarantine)
        nodes = PostgresFollowerStore(replica.database, quarantine)
        documents = replica.resource_store(COLOCATION_STRATEGY)
        why = "mostly a newer version wrote the document"
        meter = ResourceMetrics(process_meters(), replica.name, COLOCATION_STRATEGY.name, why)
        hooks = StrategyHooks(settings.base(), nodes, clock)
        self.strategies = strategies = StrategiesInForce(documents, hooks, meter)
        full_pass = FullPass(replica.bus.latest)
        offering = Offering(store, strategies, clock, metrics.published, full_pass.decided, quarantine)
        quarantine.on_hold(partial(withdraw_offer, offering))
        quarantine.on_release(partial(restore_offer, offering, replica.bus.latest))
        strategies.on_read(lambda problems: quarantine.follow("strategies", problems))
        news = StrategyNews(offering, strategies, nodes, working)
        replica.partitions.on_news(news.notify)
        change = ChangeResources(COLOCATION_STRATEGY, documents, strategies, hooks)
        self.changes = {COLOCATION_STRATEGY: change}
        passes = RunFullPasses(full_pass, offering, working, settings.full_pass_seconds, metrics.passed)

        async def age() -> None:
            await age_offers(offering, working())
            metrics.totals(await store.totals())

        super().__init__(
            replica,
            load=[strategies.load],
            state=news,
            consumers=ColocationEvents(offering).consumers(),
            loops={
                "documents": news.read,
                "strategies": news.follow,
                "ages": Repeat(
                    work=age,
                    clock=clock,
                    seconds=settings.age_check_seconds,
                    pause_first=True,
                    missed="ages were not checked",
                ),
                "full passes": Repeat(
                    work=passes,
                    clock=clock,
                    seconds=passes.pause_seconds,
                    pause_first=True,
                    missed="a full pass was aborted",
                ),
            },
            checks=lambda: [Check("colocation-strategies", True, news.status_text())],
            routers=lambda: [resource_router(change)],
        )


def build(settings: ColocationSettings, platform: Platform) -> ColocationService:
    """Builds colocation on PostgreSQL and the process's metrics."""
    return ColocationService(settings, platform)
