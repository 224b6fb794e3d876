"""The composition root of quota."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from slackwater.quota.adapters.claim_rows import KeyedLedgerStore
from slackwater.quota.edge.cluster_watch import ClusterWatch
from slackwater.quota.edge.events import consumers
from slackwater.quota.edge.quota_routes import quota_router
from slackwater.quota.metrics import QuotaMetrics
from slackwater.quota.settings import QuotaSettings
from slackwater.quota.usecases.account_trees import AccountTrees
from slackwater.quota.usecases.arbitration_rounds import ArbitrationRounds
from slackwater.quota.usecases.cluster_totals import ClusterTotals
from slackwater.quota.usecases.manage_claims import ManageClaims
from slackwater.quota.usecases.quota_documents import ElasticQuotaHooks
from slackwater.quota.usecases.quota_trees import QuotaTrees
from slackwater.quota.usecases.reconcile_claims import RECONCILE_SECONDS, ReconcileClaims
from slackwater.quota.usecases.release_history import READ_SECONDS, ReleaseHistory
from slackwater.resources.kinds.elastic_quota import ELASTIC_QUOTA
from slackwater.resources.kinds.quota_profile import QUOTA_PROFILE
from slackwater.runtime.loops import Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.service import Check, RpcPart
from slackwater.telemetry.metrics import process_meters

SHOW_SECONDS = 5.0
ACCOUNT_SECONDS = 2.0
DROP_SECONDS = 600.0


class QuotaService(ReplicatedService):
    """Arbitrates claims by elastic quotas. Any replica takes requests; the owner of a tree repeats its arbitration."""

    def __init__(self, settings: QuotaSettings, platform: Platform) -> None:
        replica = Replica("quota", platform)
        clock, meter = replica.clock, QuotaMetrics(process_meters())
        self.totals = totals = ClusterTotals(clock)
        store = KeyedLedgerStore(replica.unfenced, replica.quarantine)
        history = ReleaseHistory(store)
        hooks = ElasticQuotaHooks()
        quotas, profiles = replica.serve(ELASTIC_QUOTA, hooks), replica.serve(QUOTA_PROFILE)
        self.changes = {served.kind: served.changes() for served in (quotas, profiles)}
        self.trees = trees = QuotaTrees(quotas.in_force, profiles.in_force, totals)
        self.claims = claims = ManageClaims(store, trees, history, clock, meter, settings.arbitration())
        hooks.follow(claims.counts, claims.counts_for_change, claims.runtime_changes, trees.all_totals)
        rounds = ArbitrationRounds(
            claims,
            trees,
            store,
            clock,
            meter,
            replica.partitions.working,
            settings.keep_ended_seconds,
            settings.keep_history_seconds,
        )
        accounts = AccountTrees(claims, rounds.mine, replica.bus.publish, clock)
        reconcile = ReconcileClaims(claims, trees, store, clock, meter, rounds.mine)
        repeat = partial(Repeat, clock=clock)

        super().__init__(
            replica,
            consumers=consumers(claims),
            loops={
                "cluster": ClusterWatch(replica.bus, totals),
                "rounds": repeat(work=rounds, seconds=settings.round_seconds, missed="claims wait longer"),
                "reports": repeat(work=reconcile, seconds=RECONCILE_SECONDS, missed="claims are compared later"),
                "figures": repeat(work=rounds.show, seconds=SHOW_SECONDS, missed="metrics are shown later"),
                "accounts": repeat(work=accounts, seconds=ACCOUNT_SECONDS, missed="the console shows an older ledger"),
                "history": repeat(work=history.read, seconds=READ_SECONDS, missed="estimates follow later"),
                "ended": repeat(work=rounds.drop_ended, seconds=DROP_SECONDS, missed="ended claims are kept"),
            },
            checks=lambda: [Check("quota-trees", True, f"{len(trees.names())} trees")],
            routers=lambda: [quota_router(claims, clock)],
        )

    def rpc_parts(self) -> Sequence[RpcPart]:
        """slackwater.runtime.service.SpeaksRpc."""
        from slackwater.quota.edge.rpc import rpc_part  # imports grpc

        return [rpc_part(self.claims)]


def build(settings: QuotaSettings, platform: Platform) -> QuotaService:
    """Quota on PostgreSQL and the process's metrics."""
    return QuotaService(settings, platform)
