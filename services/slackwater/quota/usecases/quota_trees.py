"""The trees as they are declared, each with what its pool has now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from slackwater.fairshare.documents import DeclaredQuota, ElasticQuota, QuotaPool, QuotaProfile
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import Amounts, BrokenTree
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.model.errors import Conflict, NotFound, Unavailable
from slackwater.quota.domain.pool_totals import TreeTotals
from slackwater.quota.domain.running_pods import RunningPods
from slackwater.quota.usecases.cluster_totals import ClusterTotals
from slackwater.resources.in_force import ResourcesInForce
from slackwater.resources.kinds.elastic_quota import ELASTIC_QUOTA

Quotas = ResourcesInForce[ElasticQuota, DeclaredQuota]
Profiles = ResourcesInForce[QuotaProfile, QuotaPool]


class QuotaTrees:
    """What is in force on this replica. Layouts are kept until a quota changes."""

    def __init__(self, quotas: Quotas, profiles: Profiles, totals: ClusterTotals) -> None:
        self._quotas = quotas
        self._profiles = profiles
        self._totals = totals
        self._layouts: dict[str, TreeLayout] = {}
        quotas.on_change(self._layouts.clear)

    def names(self) -> Sequence[str]:
        """Returns the trees that have quotas, or a profile."""
        trees = {declared.quota.tree for declared in self._quotas.now.values.values()}
        return sorted(trees | {pool.tree for pool in self._profiles.now.values.values()})

    def quotas(self) -> Mapping[str, DeclaredQuota]:
        """Returns every quota by name."""
        return self._quotas.now.values

    def declared(self, quota: str) -> DeclaredQuota:
        """Returns a quota. Raises NotFound; Unavailable before the documents have been read: HTTP answers before."""
        if not self._quotas.is_loaded:
            raise Unavailable("the quotas have not been read yet; repeat the request")
        document = self._quotas.now.values.get(quota)
        if document is None:
            said = f"elasticquota {quota!r} does not exist; GET {ELASTIC_QUOTA.path} lists all"
            raise NotFound(said, code=ELASTIC_QUOTA.code("not_found"))
        return document

    async def find(self, quota: str) -> DeclaredQuota:
        """Returns a quota, also one that was stored elsewhere a moment ago. Raises NotFound, Unavailable."""
        try:
            return self.declared(quota)
        except NotFound:
            await self._quotas.catch_up()
        return self.declared(quota)

    def layout(self, tree: str) -> TreeLayout:
        """Returns the quotas of a tree, prepared for arbitrations. Raises Conflict for a tree that is none."""
        if tree not in self._layouts:
            quotas = [declared.quota for declared in self._quotas.now.values.values() if declared.quota.tree == tree]
            try:
                self._layouts[tree] = TreeLayout(quotas)
            except BrokenTree as error:
                raise Conflict(
                    f"{error}; nothing is decided in this tree until it is mended", code="quota_tree_broken"
                ) from None
        return self._layouts[tree]

    def policies(self, tree: str) -> Mapping[str, QueuePolicy]:
        """Returns the quotas of a tree whose queues are strict."""
        return {
            name: QueuePolicy.STRICT_FIFO
            for name, declared in self._quotas.now.values.items()
            if declared.strict_fifo and declared.quota.tree == tree
        }

    def require_revision(self, revision: int) -> None:
        """Raises Conflict if this replica follows older quotas than those of this revision."""
        if self._quotas.now.revision < revision:
            raise Conflict("quotas have changed meanwhile")

    async def follow(self, revision: int) -> None:
        """Read the quotas again if this replica follows older ones than those of this revision. Raises Unavailable."""
        if self._quotas.now.revision < revision:
            await self._quotas.catch_up()

    def require_pools(self) -> None:
        """Raises Unavailable before it is known what the pools have."""
        if not self._totals.is_known:
            raise Unavailable("what the pools have is not known yet; repeat the request")

    def totals(self, tree: str) -> TreeTotals:
        """Returns what the pool of a tree has; nothing for a tree without a profile."""
        return self._totals.now(self._pools()).get(tree, TreeTotals({}, 0, 0))

    def all_totals(self) -> Mapping[str, Amounts]:
        """Returns what each pool has, by tree."""
        return {tree: totals.total for tree, totals in self._totals.now(self._pools()).items()}

    def nodes(self, tree: str) -> Sequence[str]:
        """Returns the nodes whose resources a tree gives out."""
        return self._totals.nodes(tree, self._pools())

    def pools(self, tree: str, nodes: Collection[str]) -> Mapping[str, str]:
        """Returns the pool of each of these nodes; of none, the pools of the tree by themselves."""
        if not nodes:
            named = sorted({pool.pool for pool in self._pools() if pool.tree == tree})
            pool_names = named or sorted(set(self._totals.pools_of(self.nodes(tree)).values()))
            return {pool: pool for pool in pool_names}
        return self._totals.pools_of(nodes)

    @property
    def running(self) -> RunningPods:
        """What agents report as running."""
        return self._totals.pods

    def _pools(self) -> Sequence[QuotaPool]:
        return list(self._profiles.now.values.values())
