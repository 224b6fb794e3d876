"""The composition root of ensurance."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

from slackwater.bus.consume.agent_blocks import blocks_of
from slackwater.ensurance.adapters.guard_rows import KeyedGuardStore
from slackwater.ensurance.edge.checks import state_checks
from slackwater.ensurance.edge.events import consumers
from slackwater.ensurance.edge.pools import pools_router
from slackwater.ensurance.metrics import EnsuranceMetrics
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.answer_reclaims import AnswerReclaims
from slackwater.ensurance.usecases.documents_in_force import KINDS, DocumentsInForce
from slackwater.ensurance.usecases.follow_rules import FollowRules
from slackwater.ensurance.usecases.guard_node import GuardNode
from slackwater.ensurance.usecases.keep_leases import KeepLeases
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache
from slackwater.ensurance.usecases.on_deleted import OnDeleted
from slackwater.ensurance.usecases.on_described import OnDescribed
from slackwater.ensurance.usecases.on_evicted import OnEvicted
from slackwater.ensurance.usecases.on_eviction_requested import OnEvictionRequested
from slackwater.ensurance.usecases.on_observed import OnObserved
from slackwater.ensurance.usecases.owned_nodes import OwnedNodes
from slackwater.ensurance.usecases.pool_autonomy import PoolAutonomy
from slackwater.ensurance.usecases.reconcile_intents import ReconcileIntents
from slackwater.ensurance.usecases.release_quarantined import ReleaseQuarantined
from slackwater.events.intent_declared import IntentDeclared
from slackwater.intents.controls import ENSURANCE
from slackwater.intents.leases import RenewLeases
from slackwater.intents.writer import IntentWriter
from slackwater.resources.change import ChangeResources
from slackwater.runtime.loops import Follow, Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.resource_routes import resource_router
from slackwater.store.backlog import oldest_waiting
from slackwater.telemetry.metrics import process_meters


class EnsuranceService(ReplicatedService):
    """Guards nodes: throttles, restores and evicts by intents."""

    def __init__(self, settings: EnsuranceSettings, platform: Platform) -> None:
        replica = Replica("ensurance", platform)
        bus, clock, quarantine, owned = replica.bus, replica.clock, replica.quarantine, replica.partitions
        lease, silent, meter = settings.lease_seconds, settings.silent_seconds, EnsuranceMetrics(process_meters())
        stores, first = {kind: replica.resource_store(kind) for kind in KINDS}, settings.first_policy()
        self.documents = documents = DocumentsInForce(stores, first)
        documents.on_read(lambda kind, problems: quarantine.follow(kind.table, problems))
        store = KeyedGuardStore(replica.database, quarantine)
        self.cache = cache = GuardedNodeCache(store, documents, quarantine)
        intents = IntentWriter(ENSURANCE, cache, cache.content, clock, lease, owned.epoch_of)
        guard = GuardNode(
            cache,
            meter,
            intents,
            settings.max_report_age_seconds,
            settings.closing_seconds,
            settings.record_budget,
        )
        observed, evicted = OnObserved(cache, intents), OnEvicted(cache, meter, intents)
        reclaims = AnswerReclaims(cache, clock), OnEvictionRequested(cache, intents)
        described, reconcile = OnDescribed(cache, intents), ReconcileIntents(cache, intents, silent)
        waiting = partial(oldest_waiting, replica.database, IntentDeclared)

        def blocked() -> Collection[str]:
            return blocks_of(bus).in_force()

        renew = RenewLeases(
            ENSURANCE, cache.positions, clock, meter, bus, owned.acting, waiting, lease, silent, blocked
        )
        let_go = ReleaseQuarantined(cache, intents, reconcile, bus, described)
        quarantine.on_hold(let_go.hold)
        quarantine.on_release(let_go.release)
        self.pools = pools = PoolAutonomy(cache, clock, meter)
        follow, policy_news = FollowRules(cache, meter, intents), asyncio.Event()
        owned.on_news(policy_news.set)

        async def follow_stored() -> None:
            """Decide by what was stored. The nodes follow in the loop `policy`, so that an answer takes as long with
            5,000 nodes as with one."""
            try:
                await cache.read_rules()
            finally:
                policy_news.set()

        self.changes = changes = {
            kind: ChangeResources(kind, kept, documents.of(kind), documents.hooks[kind], follow_stored)
            for kind, kept in stores.items()
        }

        super().__init__(
            replica,
            load=[partial(cache.load, ())],
            state=OwnedNodes(cache, clock, meter, follow, reconcile),
            consumers=consumers(cache, guard, described, observed, evicted, OnDeleted(cache, meter), *reclaims),
            loops={
                "leases": Repeat(
                    work=KeepLeases(cache, clock, meter, renew, reconcile, pools, silent),
                    clock=clock,
                    seconds=renew.interval_seconds,
                    missed="leases are not renewed",
                    interrupted=reconcile.interrupt,
                ),
                "policy": Follow(
                    work=follow.catch_up, clock=clock, changed=policy_news, missed="the policy is not followed yet"
                ),
            },
            checks=partial(state_checks, cache, documents),
            routers=lambda: [
                *(resource_router(change) for change in changes.values()),
                pools_router(pools),
            ],
        )


def build(settings: EnsuranceSettings, platform: Platform) -> EnsuranceService:
    """Ensurance on PostgreSQL and Prometheus."""
    return EnsuranceService(settings, platform)
