"""What the pools have now, folded from events of nodes and offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from slackwater.cluster.fold import ClusterFold
from slackwater.events.envelope import Event, Payload
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.fairshare.documents import QuotaPool
from slackwater.model.time import Clock
from slackwater.quota.domain.pool_totals import TreeTotals, totals_of

WATCHED: Final[tuple[type[Payload], ...]] = (
    NodeDescribed,
    NodeLivenessChanged,
    NodeSchedulingChanged,
    ResourcesOffered,
    NodeDeleted,
)


class ClusterTotals:
    """Every replica folds the whole cluster: a tree spans nodes of all partitions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._fold = ClusterFold()
        self._newest: dict[str, dict[type[Payload], Event[Any]]] = {}
        """By node, the newest event of each type."""
        self._unread = set(WATCHED)

    @property
    def is_known(self) -> bool:
        """Whether the stored events of every type have been read once. Before, what is not known would count as an
        empty pool: nothing would fit, and what is used would be reclaimed."""
        return not self._unread

    def caught_up(self, payload: type[Payload]) -> None:
        """Note that all stored events of a type have been received."""
        self._unread.discard(payload)

    async def receive(self, event: Event[Any]) -> None:
        """Fold an event of a node or its offer. Types are read one after the other, so the deletion of a node that is
        back comes after its new description."""
        data = event.data
        if isinstance(data, NodeDeleted):
            self._fold.remove(data.node, data.deleted_at)
            before = self._newest.pop(data.node, {})
            if after := {kind: newest for kind, newest in before.items() if self._fold.apply(newest)}:
                self._newest[data.node] = after
        elif self._fold.apply(event):
            name = data.facts.name if isinstance(data, NodeDescribed) else data.node
            self._newest.setdefault(name, {})[type(data)] = event

    def now(self, pools: Sequence[QuotaPool]) -> Mapping[str, TreeTotals]:
        """Returns what each tree may give out; cordons that lapsed count no longer."""
        return totals_of(self._fold.view(self._clock.now()), pools)
