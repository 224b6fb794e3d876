"""The composition root of prediction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from slackwater.bus.port import each
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.errors import Fenced, InvalidInput, Misconfigured, SlackwaterError, Unavailable
from slackwater.prediction.adapters.metrics import CalibrationMetrics, PredictionMetrics
from slackwater.prediction.adapters.postgres import PostgresPredictionStore
from slackwater.prediction.adapters.predictors.catalogue import Catalogue
from slackwater.prediction.adapters.predictors.registry import make_model
from slackwater.prediction.domain.models.port import KeptModel
from slackwater.prediction.domain.policy import ModelChoice, Policies
from slackwater.prediction.edge.events import ON_DESCRIBED, WindowsOf, describing
from slackwater.prediction.edge.predictor_routes import predictor_router
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.policies_in_force import PoliciesInForce, PredictPolicyHooks
from slackwater.prediction.usecases.publish_predictions import next_check, publish_predictions
from slackwater.prediction.usecases.shares import Shares
from slackwater.prediction.usecases.state import LivingState, Restored
from slackwater.resources.catalog import PREDICT_POLICY
from slackwater.resources.change import ChangeResources
from slackwater.runtime.ownership import Lease, Standing
from slackwater.runtime.platform import Platform
from slackwater.runtime.quarantine_routes import quarantine_check, quarantine_router
from slackwater.runtime.replicas import Together, ownership_check, ownership_of
from slackwater.runtime.resource_metrics import ResourceMetrics
from slackwater.runtime.resource_news import ResourceNews, said_of
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.runtime.sharding import Ownership
from slackwater.store.port import Database
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_table import PostgresQuarantine
from slackwater.store.resource_table import PostgresResourceStore
from slackwater.telemetry.metrics import process_meters

if TYPE_CHECKING:
    from fastapi import APIRouter

from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

_SNAPSHOT_PAUSE = 19.0
_SHORTEST_LOOK, _LONGEST_LOOK = 0.1, 0.3
"""Seconds between looks at what is due; a partition that was just taken is looked at within the longest."""


class PredictionService:
    """slackwater.runtime.service.Service. Whatever it takes over starts from what the store holds."""

    name = "prediction"

    def __init__(
        self,
        settings: PredictionSettings,
        platform: Platform,
        database: Database,
        metrics: PredictionMetrics,
        ownership: Ownership,
    ) -> None:
        self._settings = settings
        self._platform = platform
        self._ownership = ownership
        self.quarantine = Quarantine(self.name, PostgresQuarantine(database, self.name), platform.clock)
        self._database = database = database.fenced(ownership)
        self._metrics = metrics
        store = PostgresPredictionStore(database, self.quarantine)
        catalogue, policies = Catalogue(), policy_store(database)
        why = "a model is not installed on this replica, or a newer version wrote the document"
        meter = ResourceMetrics(process_meters(), self.name, PREDICT_POLICY.name, why)
        hooks = PredictPolicyHooks(catalogue, settings.first_policy())
        self.policies = PoliciesInForce(policies, hooks, meter)
        """Ask `policies.policies` for those of now, or have `policies.on_policies` notified."""
        self._routers = (
            resource_router(ChangeResources(PREDICT_POLICY, policies, self.policies, hooks)),
            predictor_router(catalogue),
            quarantine_router(self.quarantine),
        )
        self.policies.on_read(lambda problems: self.quarantine.follow("policies", problems))
        self._meter = CalibrationMetrics(process_meters())
        self._news = ResourceNews(self.policies, platform.clock)
        ownership.on_news(self._news.tell)
        ownership.on_news(self.quarantine.tell)
        self._shares = Shares(
            store, settings.policy(model_of), self._reading, self._restored, self._failed, self.quarantine
        )
        self.quarantine.on_release(self._shares.retry)
        self._named: dict[str, str] = {}
        self._changed = asyncio.Event()
        self.policies.on_policies(self._tell)
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, started: Callable[[], None]) -> None:
        """Restore, then replay and fold what is ours until cancelled, with a last snapshot on the way out."""
        await self.quarantine.load()
        await self.policies.load()
        await self._shares.follow(self.policies.policies)
        async with asyncio.TaskGroup() as group:
            works = (self._relay(), self._keep_snapshots(), self._look(), self._news.follow(), self._follow())
            tasks = [group.create_task(work) for work in (*works, self.quarantine.run())]
            try:
                await self._consume(started)
            finally:
                for task in tasks:
                    task.cancel()
                if self._closing:
                    await asyncio.wait(self._closing)

    async def checks(self) -> Sequence[Check]:
        connected, answers = await asyncio.gather(self._platform.bus.connected(), self._database.ping())
        return [
            Check("prediction-bus", connected, "" if connected else "NATS does not answer"),
            Check("prediction-database", answers, "" if answers else "PostgreSQL does not answer, or takes no writes"),
            Check("prediction-state", True, f"{self._shares.series} series"),
            Check("prediction-policies", True, self._said()),
            Check("prediction-models", True, _told(self._shares.problems)),
            quarantine_check(self.quarantine),
            ownership_check(self._ownership),
        ]

    def standing(self) -> Standing | None:
        return self._ownership.standing()

    def routers(self) -> Sequence[APIRouter]:
        return self._routers

    async def take(self, leases: Sequence[Lease]) -> None:
        await self._shares.take([lease.partition for lease in leases])

    async def give(self, leases: Sequence[Lease]) -> None:
        await self._shares.give([lease.partition for lease in leases])
        for lease in leases:
            self._meter.dropped(lease.partition)

    def drop(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            self._meter.dropped(partition)
        for reader in self._shares.drop(partitions):
            task = asyncio.create_task(reader.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _restored(self, restored: Restored) -> None:
        for why in restored.refused:
            self._metrics.snapshot("refused")
            log.warning("snapshot is not usable", reason=why)
        for why in restored.anew:
            log.warning("model begins anew", reason=why)

    def _reading(self, living: LivingState) -> AbstractAsyncContextManager[None]:
        handler = WindowsOf(living, lambda new: self._metrics.folded(new, self._shares.series))
        bus = self._platform.bus
        return bus.replay(UsageWindowed, handler, after_sequence=living.position, partition=living.partition)

    async def _consume(self, started: Callable[[], None]) -> None:
        bus, handler = self._platform.bus, each(describing(self._shares))
        async with (
            bus.consume(NodeDescribed, ON_DESCRIBED, handler, holds=self._ownership.holds) as descriptions,
            self._ownership.owning(Together([self], [descriptions])),
        ):
            started()
            await asyncio.Event().wait()

    async def _relay(self) -> None:
        await self._database.relay(self._platform.bus.carry).run()

    async def _keep_snapshots(self) -> None:
        """Of one partition after the other, and no longer than a twentieth of the time."""
        clock, took = self._platform.clock, 0.0
        while True:
            await clock.sleep(max(self._settings.snapshot_seconds, took * _SNAPSHOT_PAUSE))
            began = clock.monotonic()
            kept = await self._shares.keep(list(self._shares))
            took = clock.monotonic() - began
            if kept:
                self._metrics.snapshot("kept")

    async def _look(self) -> None:
        """Publish what is due in each partition when its check is."""
        while True:
            for living in self._shares:
                try:
                    await publish_predictions(living, self._platform.clock, self._meter)
                except (Fenced, Unavailable) as error:
                    log.warning("predictions are published later", partition=living.partition, reason=error.message)
            self._name_problems()
            waits = [next_check(living, self._platform.clock) for living in self._shares]
            await self._platform.clock.sleep(min(max(min(waits, default=_LONGEST_LOOK), _SHORTEST_LOOK), _LONGEST_LOOK))

    def _name_problems(self) -> None:
        """Each one once."""
        problems = self._shares.problems
        for model, why in problems.items():
            if self._named.get(model) != why:
                log.error("model lends nothing where it fails", model=model, reason=why)
        self._named = problems

    def _said(self) -> str:
        """How many pools have a policy of their own, and which documents cannot be used."""
        pools = len(self.policies.policies.pools)
        return f"{pools} pools with a policy of their own{said_of(self.policies.problems)}"

    def _tell(self, policies: Policies) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        """Predict by the policies that are in force, whenever they change, without a restart."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                for one in await self._shares.follow(self.policies.policies):
                    log.warning("model begins anew", reason=one)
            except (InvalidInput, Misconfigured) as error:  # they were checked; a model may still refuse to be made
                log.error("policies are not followed", reason=error.message)

    def _failed(self, error: SlackwaterError) -> None:
        self._metrics.snapshot("failed")
        log.warning("snapshot was not kept", reason=error.message)


def _told(problems: Mapping[str, str]) -> str:
    """For health: which models fail, and why; the limits stand in there."""
    return "; ".join(f"{model} {why}" for model, why in sorted(problems.items())) or "every model answers"


def model_of(choice: ModelChoice, resource: str) -> KeptModel:
    """A new model of the registry. Raises InvalidInput that names what is wrong."""
    return make_model(choice.name, choice.settings, "cpu" if resource == "cpu" else "memory")


def policy_store(database: Database) -> PostgresResourceStore:
    """Where the PredictPolicy documents are."""
    return PostgresResourceStore(database, PREDICT_POLICY)


def refuse_unusable(settings: PredictionSettings) -> None:
    """Raises Misconfigured, at the start and once, for a model or a setting of one that there is not."""
    for resource in ("cpu", "memory"):
        try:
            Catalogue().check(settings.first_policy().model_of(resource), resource)
        except InvalidInput as error:
            name = f"SLACKWATER_PREDICTION_{resource.upper()}"
            raise Misconfigured(f"{name}_MODEL, {name}_SETTINGS: {error.message}") from None


def build(settings: PredictionSettings, platform: Platform) -> PredictionService:
    """Prediction on PostgreSQL and the process's metrics. Raises Misconfigured."""
    refuse_unusable(settings)
    database = platform.database(PredictionService.name)
    ownership = ownership_of(platform, PredictionService.name, database)
    return PredictionService(settings, platform, database, PredictionMetrics(process_meters()), ownership)
