"""The composition root."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack

from fastapi import APIRouter

from slackwater.bus.blocks import blocks_of
from slackwater.ensurance.adapters.metrics import EnsuranceMetrics
from slackwater.ensurance.adapters.postgres import PostgresGuardStore
from slackwater.ensurance.edge.events import consume_all
from slackwater.ensurance.edge.pools import pools_router
from slackwater.ensurance.ports import GuardStore, Meter
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declare_anew import DeclareAnew
from slackwater.ensurance.usecases.documents_in_force import KINDS, DocumentsInForce, Stores, hooks_of
from slackwater.ensurance.usecases.follow_rules import FollowRules
from slackwater.ensurance.usecases.guard_node import GuardNode
from slackwater.ensurance.usecases.let_go import LetGo
from slackwater.ensurance.usecases.look_at_pools import LookAtPools
from slackwater.ensurance.usecases.note_described import NoteDescribed
from slackwater.ensurance.usecases.note_evicted import NoteEvicted
from slackwater.ensurance.usecases.note_observed import NoteObserved
from slackwater.ensurance.usecases.renew_leases import RenewLeases
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.resources.change import ChangeResources
from slackwater.runtime.ownership import Lease, Standing
from slackwater.runtime.platform import Platform
from slackwater.runtime.quarantine_routes import quarantine_check, quarantine_router
from slackwater.runtime.replicas import Together, ownership_check, ownership_of
from slackwater.runtime.resource_news import said_of
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.runtime.sharding import Ownership
from slackwater.store.backlog import oldest_waiting
from slackwater.store.port import Database
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored
from slackwater.store.quarantine_table import PostgresQuarantine
from slackwater.store.resource_table import PostgresResourceStore
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters
from slackwater.waterline.rulebook import acting_on_nobody

log = get_logger(__name__)
FOLLOW_SECONDS = 1.0


class EnsuranceService:
    """slackwater.runtime.service.Service."""

    name = "ensurance"

    def __init__(
        self,
        settings: EnsuranceSettings,
        platform: Platform,
        database: Database,
        store: GuardStore,
        meter: Meter,
        ownership: Ownership,
        documents: Stores,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.quarantine = quarantine or unstored(self.name)
        ownership.on_news(self.quarantine.tell)
        self._ownership = ownership
        self._policy_news = asyncio.Event()
        ownership.on_news(self._policy_news.set)
        clock, lease = platform.clock, settings.lease_seconds
        self._settings = settings
        self._meter = meter
        self._platform = platform
        self._database = database
        first = settings.first_policy()
        self._documents = DocumentsInForce(documents, first)
        self._documents.on_read(lambda kind, problems: self.quarantine.follow(kind.table, problems))
        self._book = book = Book(
            store, self._documents, lambda partition: ownership.held().get(partition, 0), self.quarantine
        )
        age, closing = settings.max_report_age_seconds, settings.closing_seconds
        self._guard = GuardNode(book, clock, meter, lease, age, closing)
        self._described = NoteDescribed(book, clock, lease)
        self._observed = NoteObserved(book, clock, lease)
        self._evicted = NoteEvicted(book, clock, meter, lease)
        self._anew = DeclareAnew(book, clock, lease, settings.silent_seconds)
        self._renew = RenewLeases(
            book,
            clock,
            meter,
            platform.bus,
            self._may_act_for,
            self._waiting,
            lease,
            settings.silent_seconds,
            lambda: blocks_of(platform.bus).in_force(),
        )
        let_go = LetGo(book, clock, self._anew)
        self.quarantine.on_hold(let_go.hold)
        self.quarantine.on_release(let_go.release)
        self._look = LookAtPools(book, clock, meter)
        self._change = FollowRules(book, clock, meter, lease)
        self._changes = {
            kind: ChangeResources(kind, kept, self._documents.of(kind), hooks_of(kind, first), self._follow_at_once)
            for kind, kept in documents.items()
        }

    async def run(self, started: Callable[[], None]) -> None:
        """Load, then consume, relay and renew until cancelled. Raises Unavailable if PostgreSQL is away at start."""
        await self.quarantine.load()
        await self._book.load(())
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._database.relay(self._platform.bus.carry).run(), name="ensurance outbox"),
                tasks.create_task(self._keep_renewing(), name="ensurance leases"),
                tasks.create_task(self._follow_policy(), name="ensurance policy"),
                tasks.create_task(self.quarantine.run(), name="ensurance quarantine"),
            ]
            try:
                async with AsyncExitStack() as stack:
                    bus, holds = self._platform.bus, self._ownership.holds
                    handlers = self._guard, self._described, self._observed, self._evicted
                    readings = await consume_all(stack, bus, holds, self._book, *handlers)
                    await stack.enter_async_context(self._ownership.owning(Together([self], readings)))
                    started()
                    await asyncio.Event().wait()
            finally:
                for task in background:
                    task.cancel()

    async def checks(self) -> Sequence[Check]:
        connected, answers = await asyncio.gather(self._platform.bus.connected(), self._database.ping())
        problems = self._documents.problems
        known = f"{len(self._book.nodes())} nodes" if self._book.ready else "not read yet"
        return [
            Check("ensurance-bus", connected, "" if connected else "NATS does not answer"),
            Check("ensurance-database", answers, "" if answers else "PostgreSQL does not answer, or takes no writes"),
            Check("ensurance-state", self._book.ready, known),
            Check("ensurance-policies", True, f"{len(problems)} unusable{said_of(problems)}{self._in_vain()}"),
            quarantine_check(self.quarantine),
            ownership_check(self._ownership),
        ]

    def _in_vain(self) -> str:
        """Begins with a semicolon; empty if every rule can act."""
        found = acting_on_nobody(self._book.rules.policies, self._book.metrics) if self._book.ready else {}
        return "".join(f"; rule {key} acts on nobody: {why}" for key, why in sorted(found.items()))

    def standing(self) -> Standing | None:
        return self._ownership.standing()

    def routers(self) -> Sequence[APIRouter]:
        kinds = [resource_router(change) for change in self._changes.values()]
        return [*kinds, pools_router(self._look), quarantine_router(self.quarantine)]

    async def take(self, leases: Sequence[Lease]) -> None:
        """Nodes as last written. Their leases may be about to run out, under another epoch: declared at once."""
        await self._book.take([lease.partition for lease in leases], self._platform.clock.now())
        for node in self._book.nodes():
            self._meter.standing(node.node, len(node.state.throttles), 0)
        await self._change.catch_up()
        await self._anew.taken([lease.partition for lease in leases])

    async def give(self, leases: Sequence[Lease]) -> None:
        """Everything that matters is written with each decision."""

    def drop(self, partitions: Collection[int]) -> None:
        for node in self._book.nodes():
            if partition_of(node.node) in partitions:
                self._meter.standing(node.node, 0, 0)
        self._book.drop(partitions)

    async def _follow_at_once(self) -> None:
        """After a document was stored here; what fails now is tried again as after news."""
        try:
            await self._change.catch_up()
        except (Conflict, Unavailable) as error:
            log.warning("the policy is not followed yet", error=error.message)
            self._policy_news.set()

    async def _follow_policy(self) -> None:
        """Whichever replica changes the policy, each declares it for its own nodes at once."""
        while True:
            await self._policy_news.wait()
            self._policy_news.clear()
            try:
                await self._change.catch_up()
            except (Conflict, Unavailable) as error:
                log.warning("the policy is not followed yet", error=error.message)
                await self._platform.clock.sleep(FOLLOW_SECONDS)
                self._policy_news.set()

    def _may_act_for(self) -> Mapping[int, int]:
        owned = self._ownership
        return {partition: epoch for partition, epoch in owned.held().items() if owned.holds(partition)}

    async def _waiting(self) -> Mapping[int, float]:
        return await oldest_waiting(self._database, IntentDeclared)

    async def _keep_renewing(self) -> None:
        while True:
            try:
                await self._renew()
                await self._anew()
                await self._look()
                now = self._platform.clock.now()
                self._meter.stepped_back(len(self._book.stepped_back(now)))
                self._meter.closed(self._book.closed(now))
                self._forget_gaps_of_silent_nodes()
            except (Conflict, Unavailable) as error:
                log.warning("leases are not renewed", error=error.message)
                self._anew.interrupted()
            await self._platform.clock.sleep(self._renew.interval_seconds)

    def _forget_gaps_of_silent_nodes(self) -> None:
        """Nobody knows what they lack now: an alert on it would never end."""
        now, heard_at = self._platform.clock.now(), self._book.heard_at
        for node in self._book.nodes():
            at = heard_at.get(node.node)
            if at is not None and (now - at).total_seconds() > self._settings.silent_seconds:
                self._meter.standing(node.node, len(node.state.throttles), 0)


def build(settings: EnsuranceSettings, platform: Platform) -> EnsuranceService:
    """Ensurance on PostgreSQL and Prometheus."""
    database = platform.database(EnsuranceService.name)
    ownership = ownership_of(platform, EnsuranceService.name, database)
    fenced, meter = database.fenced(ownership), EnsuranceMetrics(process_meters())
    documents = {kind: PostgresResourceStore(fenced, kind) for kind in KINDS}
    quarantine = Quarantine(EnsuranceService.name, PostgresQuarantine(database, EnsuranceService.name), platform.clock)
    store = PostgresGuardStore(fenced, quarantine)
    return EnsuranceService(settings, platform, fenced, store, meter, ownership, documents, quarantine)
