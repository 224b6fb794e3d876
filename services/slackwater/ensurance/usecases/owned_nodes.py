"""The nodes of this replica, as their partitions are taken, given and lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slackwater.ensurance.metrics import EnsuranceMetrics
from slackwater.ensurance.usecases.follow_rules import FollowRules
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache
from slackwater.ensurance.usecases.reconcile_intents import ReconcileIntents
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.runtime.ownership import Lease


class OwnedNodes:
    """slackwater.runtime.partition_sharding.Holder."""

    def __init__(
        self,
        cache: GuardedNodeCache,
        clock: Clock,
        meter: EnsuranceMetrics,
        follow: FollowRules,
        reconcile: ReconcileIntents,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._meter = meter
        self._follow = follow
        self._reconcile = reconcile

    async def acquire(self, leases: Sequence[Lease]) -> None:
        """Nodes as last written. Their leases may be about to end, under another epoch: declared at once."""
        partitions = [lease.partition for lease in leases]
        await self._cache.acquire(partitions, self._clock.now())
        for node in self._cache.nodes():
            self._meter.standing(node.node, len(node.state.limited), 0)
        await self._follow.catch_up()
        await self._reconcile.acquire(partitions)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Everything that matters is written with each decision."""

    def drop(self, partitions: Collection[int]) -> None:
        for node in self._cache.nodes():
            if partition_of(node.node) in partitions:
                self._meter.standing(node.node, 0, 0)
        self._cache.drop(partitions)
