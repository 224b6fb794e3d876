"""A fold that follows watches: types of events are read one after the other, and nodes are deleted and come back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slackwater.cluster.fold import ClusterFold
from slackwater.events.envelope import Event, Payload
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_windowed import UsageWindowed


class LiveFold:
    """The newest event of each node and type; of windows none, because the next one comes soon. `unread` are the types
    whose stored events were not all received yet."""

    def __init__(self, watched: Iterable[type[Payload]]) -> None:
        self.fold = ClusterFold()
        self.unread = set(watched)
        self._newest: dict[str, dict[type[Payload], Event[Any]]] = {}

    @property
    def is_known(self) -> bool:
        """Whether the stored events of every type have been read once. Before, what is missing is not known."""
        return not self.unread

    def receive(self, event: Event[Any]) -> bool:
        """Fold an event; returns whether it changed anything. The deletion of a node that is back may come after its
        new description, so what is newer than a deletion is folded again."""
        data = event.data
        if isinstance(data, NodeDeleted):
            return self._delete(data)
        if not self.fold.apply(event):
            return False
        if isinstance(data, UsageWindowed):
            return True
        name = data.facts.name if isinstance(data, NodeDescribed) else data.node
        self._newest.setdefault(name, {})[type(data)] = event
        return True

    def _delete(self, deleted: NodeDeleted) -> bool:
        removed = self.fold.remove(deleted.node, deleted.deleted_at)
        before = self._newest.pop(deleted.node, {})
        if after := {kind: newest for kind, newest in before.items() if self.fold.apply(newest)}:
            self._newest[deleted.node] = after
        return removed
