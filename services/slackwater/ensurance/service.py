"""The composition root of ensurance."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from slackwater.bus.blocks import blocks_of
from slackwater.ensurance.adapters.metrics import EnsuranceMetrics
from slackwater.ensurance.adapters.postgres import PostgresGuardStore
from slackwater.ensurance.edge.events import consumers
from slackwater.ensurance.edge.pools import pools_router
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declare_anew import DeclareAnew
from slackwater.ensurance.usecases.documents_in_force import KINDS, DocumentsInForce, hooks_of
from slackwater.ensurance.usecases.follow_rules import FollowRules
from slackwater.ensurance.usecases.guard_node import GuardNode
from slackwater.ensurance.usecases.keep_leases import KeepLeases
from slackwater.ensurance.usecases.let_go import LetGo
from slackwater.ensurance.usecases.look_at_pools import LookAtPools
from slackwater.ensurance.usecases.note_described import NoteDescribed
from slackwater.ensurance.usecases.note_evicted import NoteEvicted
from slackwater.ensurance.usecases.note_observed import NoteObserved
from slackwater.ensurance.usecases.owned_nodes import OwnedNodes
from slackwater.ensurance.usecases.renew_leases import RenewLeases
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.errors import Conflict, Unavailable
from slackwater.resources.change import ChangeResources
from slackwater.runtime.loops import Follow, Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.resource_news import said_of
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.store.backlog import oldest_waiting
from slackwater.store.resource_table import PostgresResourceStore
from slackwater.telemetry.metrics import process_meters
from slackwater.waterline.rulebook import acting_on_nobody


class EnsuranceService(ReplicatedService):
    """Guards nodes: throttles, restores and evicts by intents."""

    def __init__(self, settings: EnsuranceSettings, platform: Platform) -> None:
        replica = Replica("ensurance", platform)
        bus, clock, quarantine, owned = replica.bus, replica.clock, replica.quarantine, replica.shares
        lease, silent, meter = settings.lease_seconds, settings.silent_seconds, EnsuranceMetrics(process_meters())
        stores, first = {kind: PostgresResourceStore(replica.database, kind) for kind in KINDS}, settings.first_policy()
        self.documents = documents = DocumentsInForce(stores, first)
        documents.on_read(lambda kind, problems: quarantine.follow(kind.table, problems))
        store = PostgresGuardStore(replica.database, quarantine)
        self.book = book = Book(store, documents, lambda partition: owned.held().get(partition, 0), quarantine)
        guard = GuardNode(book, clock, meter, lease, settings.max_report_age_seconds, settings.closing_seconds)
        observed, evicted = NoteObserved(book, clock, lease), NoteEvicted(book, clock, meter, lease)
        described, anew = NoteDescribed(book, clock, lease), DeclareAnew(book, clock, lease, silent)
        waiting = partial(oldest_waiting, replica.database, IntentDeclared)
        renew = RenewLeases(
            book, clock, meter, bus, owned.acting, waiting, lease, silent, lambda: blocks_of(bus).in_force()
        )
        let_go = LetGo(book, clock, anew, bus, described)
        quarantine.on_hold(let_go.hold)
        quarantine.on_release(let_go.release)
        self.pools = pools = LookAtPools(book, clock, meter)
        follow, policy_news = FollowRules(book, clock, meter, lease), asyncio.Event()
        owned.on_news(policy_news.set)

        async def follow_stored() -> None:
            try:
                await follow.catch_up()
            except (Conflict, Unavailable):  # the document is stored; nodes follow it with the next try
                policy_news.set()

        self.changes = changes = {
            kind: ChangeResources(kind, kept, documents.of(kind), hooks_of(kind, first), follow_stored)
            for kind, kept in stores.items()
        }

        def checks() -> Sequence[Check]:
            unusable = f"{len(documents.problems)} unusable{said_of(documents.problems)}"
            known = f"{len(book.nodes())} nodes" if book.ready else "not read yet"
            policies = Check("ensurance-policies", True, f"{unusable}{idle_rules(book)}")
            return [Check("ensurance-state", book.ready, known), policies]

        super().__init__(
            replica,
            load=[partial(book.load, ())],
            state=OwnedNodes(book, clock, meter, follow, anew),
            consumers=consumers(book, guard, described, observed, evicted),
            loops={
                "leases": Repeat(
                    work=KeepLeases(book, clock, meter, renew, anew, pools, silent),
                    clock=clock,
                    seconds=renew.interval_seconds,
                    missed="leases are not renewed",
                    interrupted=anew.interrupted,
                ),
                "policy": Follow(
                    work=follow.catch_up, clock=clock, changed=policy_news, missed="the policy is not followed yet"
                ),
            },
            checks=checks,
            routers=lambda: [
                *(resource_router(change) for change in changes.values()),
                pools_router(pools),
            ],
        )


def idle_rules(book: Book) -> str:
    """Rules that can act on no pod, for health. Begins with a semicolon; empty if every rule can act."""
    found = acting_on_nobody(book.rules.policies, book.metrics) if book.ready else {}
    return "".join(f"; rule {key} acts on nobody: {why}" for key, why in sorted(found.items()))


def build(settings: EnsuranceSettings, platform: Platform) -> EnsuranceService:
    """Ensurance on PostgreSQL and Prometheus."""
    return EnsuranceService(settings, platform)
