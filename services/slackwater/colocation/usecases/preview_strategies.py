"""Computes what all nodes would offer after a change of strategies, and names those with the largest change."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from slackwater.colocation.ports import FollowedStrategy, FollowerStore, Strategies
from slackwater.model.records import record
from slackwater.model.time import Clock
from slackwater.offers.node import NodeState
from slackwater.offers.snapshots import snapshot_of
from slackwater.offers.what_if import PreviewOffers, offers_under

PAGE = 50
"""States that are read and computed in one step, so that other tasks can run in between."""


@record(frozen=True, slots=True)
class NodePreview:
    """One node. `in_force` is the last published offer; `before` and `after` are computed now under the strategies in
    force and under the new ones, without hysteresis. `changed` is the largest difference as a ratio of capacity.
    """

    node: str
    pool: str
    in_force: PreviewOffers
    before: PreviewOffers
    after: PreviewOffers
    strategies_before: tuple[str, ...]
    strategies_after: tuple[str, ...]
    problem: str
    changed: float


@dataclass(slots=True)
class PoolPreview:
    """Sums over a pool's nodes, and how many of these would offer another amount."""

    pool: str
    nodes: int = 0
    changed: int = 0
    in_force: PreviewOffers = field(default_factory=PreviewOffers)
    before: PreviewOffers = field(default_factory=PreviewOffers)
    after: PreviewOffers = field(default_factory=PreviewOffers)


@record(frozen=True, slots=True)
class StrategyPreview:
    """`nodes` are those with the largest change first, `left_out` counts the omitted ones; sums are over all. `unknown`
    nodes were not described or never measured, so nothing can be computed for them.
    """

    computed_at: datetime
    pools: Sequence[PoolPreview]
    nodes: Sequence[NodePreview]
    left_out: int
    unknown: int


@dataclass(frozen=True, slots=True)
class OffersWanted:
    """Options of a dry run: no offers without `offers`; at most `limit` nodes are named."""

    limit: int
    offers: bool = True


class PreviewStrategies:
    """Reads states and stores nothing."""

    def __init__(self, nodes: FollowerStore, in_force: Strategies, clock: Clock) -> None:
        self._nodes = nodes
        self._in_force = in_force
        self._clock = clock

    async def offers(self, proposed: Strategies, most: int) -> StrategyPreview:
        """Returns the offers of every node before and after, naming at most `most` nodes. Raises Unavailable."""
        now, pools, unknown, seen = self._clock.now(), dict[str, PoolPreview](), 0, 0
        top: list[tuple[float, int, NodePreview]] = []
        page = await self._nodes.page("", PAGE)
        while page:
            described = [state for state in page if state.described_by is not None and state.used_by is not None]
            unknown += len(page) - len(described)
            for tried in _compared(described, self._in_force, proposed, now):
                seen += 1
                _add(pools.setdefault(tried.pool, PoolPreview(tried.pool)), tried)
                entry = (tried.changed, -seen, tried)
                if len(top) < most:
                    heapq.heappush(top, entry)
                elif top:
                    heapq.heappushpop(top, entry)
            await asyncio.sleep(0)
            page = await self._nodes.page(page[-1].node, PAGE)
        named = [tried for _, _, tried in sorted(top, reverse=True)]
        return StrategyPreview(now, [pools[name] for name in sorted(pools)], named, seen - len(named), unknown)


def _compared(states: Sequence[NodeState], now: Strategies, proposed: Strategies, at: datetime) -> list[NodePreview]:
    before, after = [now.of(state) for state in states], [proposed.of(state) for state in states]
    offered = zip(_computed(states, before, at), _computed(states, after, at), strict=True)
    return [
        NodePreview(
            node=state.node,
            pool=state.pool,
            in_force=PreviewOffers(state.batch, state.mid),
            before=was,
            after=will,
            strategies_before=before[place].sources,
            strategies_after=after[place].sources,
            problem=after[place].reason,
            changed=was.differs_by(will, state.capacity),
        )
        for place, (state, (was, will)) in enumerate(zip(states, offered, strict=True))
    ]


def _computed(states: Sequence[NodeState], followed: Sequence[FollowedStrategy], at: datetime) -> list[PreviewOffers]:
    strategies = [follower.strategy for follower in followed]
    optional = [snapshot_of(state, strategy, at) for state, strategy in zip(states, strategies, strict=True)]
    snapshots = [
        snapshot for snapshot in optional if snapshot is not None
    ]  # callers pass only described and measured nodes
    return offers_under(snapshots, strategies) if snapshots else []


def _add(pool: PoolPreview, tried: NodePreview) -> None:
    pool.nodes += 1
    pool.changed += tried.before != tried.after
    pool.in_force += tried.in_force
    pool.before += tried.before
    pool.after += tried.after
