"""Resolves each node's strategy from a set of documents, in memory: the ones in force, or those of a dry run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime

from slackwater.colocation.ports import FollowedStrategy
from slackwater.model.records import record
from slackwater.offers.document import Spec
from slackwater.offers.node import NodeState
from slackwater.offers.strategy_layers import NodeOverrides, PoolStrategy, Resolved, pool_of, resolve
from slackwater.resources.selectors import Selector

MOST_KNOWN = 20_000
"""Nodes with equal selection, labels and annotations share a cached result; the cache is bounded to this many."""


@record(frozen=True, slots=True)
class Kept:
    """A document in force. `selector` None: the cluster's. `accepted_at`: when this generation was stored, None if
    unknown.
    """

    name: str
    generation: int
    selector: Selector | None
    precedence: int
    spec: Spec
    accepted_at: datetime | None = field(default=None, compare=False)


class StrategySet:
    """Implements slackwater.colocation.ports.Strategies for one set of documents."""

    def __init__(self, cluster: Kept | None, pools: Sequence[Kept], base: Spec) -> None:
        """`base` applies below the cluster's document, or in its place."""
        ordered = sorted(pools, key=lambda pool: (-pool.precedence, pool.name))
        self._pools = [PoolStrategy(one.name, one.selector, one.spec) for one in ordered]
        self._cluster: Spec = {} if cluster is None else cluster.spec
        self._base = base
        self._titles: Mapping[str, str] = {
            f"pool/{pool.name}": f"pool/{pool.name}@{pool.generation}" for pool in pools
        } | {"cluster": "settings" if cluster is None else f"cluster@{cluster.generation}"}
        documents = pools if cluster is None else [*pools, cluster]
        self._accepted: Mapping[str, datetime | None] = {
            "cluster" if document is cluster else f"pool/{document.name}": document.accepted_at
            for document in documents
        }
        self._known: dict[object, FollowedStrategy] = {}

    def of(self, state: NodeState) -> FollowedStrategy:
        words, good = state.words.in_pool(state.pool), state.good_words
        pool = pool_of(self._pools, words.labels)
        key = (None if pool is None else pool.name, words.own(), None if good is None else good.own())
        followed = self._known.get(key)
        if followed is None:
            resolved = self._resolved(pool, words, good)
            sources = tuple(self._titles.get(level, level) for level in resolved.levels)
            times = [at for level in resolved.levels if (at := self._accepted.get(level)) is not None]
            followed = FollowedStrategy(resolved.strategy, sources, resolved.reason, max(times, default=None))
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = followed
        return followed

    def resolved(self, state: NodeState) -> Resolved:
        """Resolves a node's strategy, with the merged fields."""
        words = state.words.in_pool(state.pool)
        return self._resolved(pool_of(self._pools, words.labels), words, state.good_words)

    def _resolved(self, pool: PoolStrategy | None, words: NodeOverrides, good: NodeOverrides | None) -> Resolved:
        return resolve(self._cluster, [] if pool is None else [pool], words, good, self._base)
