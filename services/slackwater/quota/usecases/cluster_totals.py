"""What the pools have now, folded from events of nodes and offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.cluster.fold import ClusterFold
from slackwater.events.envelope import Event
from slackwater.events.node_deleted import NodeDeleted
from slackwater.fairshare.documents import QuotaPool
from slackwater.model.time import Clock
from slackwater.quota.domain.pool_totals import TreeTotals, totals_of


class ClusterTotals:
    """Every replica folds the whole cluster: a tree spans nodes of all partitions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._fold = ClusterFold()

    async def receive(self, event: Event[Any]) -> None:
        """Fold an event of a node or its offer."""
        if isinstance(event.data, NodeDeleted):
            self._fold.remove(event.data.node, event.data.deleted_at)
        else:
            self._fold.apply(event)

    def now(self, pools: Sequence[QuotaPool]) -> Mapping[str, TreeTotals]:
        """Returns what each tree may give out; cordons that lapsed count no longer."""
        return totals_of(self._fold.view(self._clock.now()), pools)
