"""Declares intents again that changed without an event of their node: see slackwater.intents.reconciler. Ensurance adds
the nodes of pools that may do more or less than before, which changes with time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.intents.reconciler import IntentReconciler
from slackwater.waterline.cycle import Options


class ReconcileIntents:
    """See the module's docstring."""

    def __init__(self, cache: GuardedNodeCache, intents: GuardIntents, silent_seconds: float) -> None:
        self._cache = cache
        self._clock = intents.clock
        self._reconciler = IntentReconciler(intents, silent_seconds)
        self._options: Mapping[str, Options] = {}

    async def __call__(self) -> int:
        """Declare what has changed since the last call. Returns how many. Raises Unavailable."""
        before, self._options = self._options, self._pools(self._clock.now())
        pools = {pool for pool, options in self._options.items() if before.get(pool, options) != options}
        return await self._reconciler(lambda node: node.pool in pools)

    async def acquire(self, partitions: Collection[int]) -> int:
        """Declare every node of partitions that have just become ours. Raises Unavailable."""
        self._options = {**self._pools(self._clock.now()), **self._options}
        return await self._reconciler.acquire(partitions)

    async def declare(self, nodes: Sequence[str]) -> int:
        """Declare these nodes, whatever was declared before. Raises Unavailable."""
        return await self._reconciler.declare(nodes)

    def interrupt(self) -> None:
        """Bus or PostgreSQL were away: no node fell silent by that."""
        self._reconciler.interrupt()

    def _pools(self, now: datetime) -> Mapping[str, Options]:
        """What disconnected agents of each pool may do."""
        nodes = {node.pool: node for node in self._cache.nodes()}
        options = {
            pool: self._cache.isolate(node.node, partial(self._cache.options, node, now))
            for pool, node in nodes.items()
        }
        return {pool: known for pool, known in options.items() if known is not None}
