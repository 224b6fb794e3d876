"""On node.deleted: drop the node's state, its lease and its gauges. Its decisions and effects are kept."""

from __future__ import annotations

from slackwater.ensurance.metrics import EnsuranceMetrics
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache
from slackwater.events.envelope import Event
from slackwater.events.node_deleted import NodeDeleted


class OnDeleted:
    """A node that was described after its deletion is back, and stays as it is."""

    def __init__(self, cache: GuardedNodeCache, meter: EnsuranceMetrics) -> None:
        self._cache = cache
        self._meter = meter

    async def __call__(self, event: Event[NodeDeleted]) -> None:
        """Raises Unavailable, Fenced."""
        node = event.data.node
        if self._cache.quarantine.holds_node(node):
            self._cache.quarantine.left_out(NodeDeleted.TYPE)
            return
        async with self._cache.lock(node):
            known = self._cache.node(node)
            if known is None or (known.described_at and known.described_at > event.data.deleted_at):
                return
            async with self._cache.transaction() as unit:
                await unit.remove(node)
            self._cache.remove(node)
            self._meter.standing(node, 0, 0)
