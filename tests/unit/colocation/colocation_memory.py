"""The store of colocation over a database in memory: what PostgreSQL answers in SQL is folded from the states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.colocation.adapters.node_rows import KeyedColocationStore, KeyedFollowerStore
from slackwater.colocation.adapters.states import NODE_STATES
from slackwater.colocation.domain.node import NodeState, PoolTotals
from slackwater.colocation.domain.strategy import Strategy
from slackwater.colocation.ports import Followed, Followers
from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.testing.store import MemoryDatabase


class OneStrategy:
    """slackwater.colocation.ports.Strategies. Every node follows the same one."""

    def __init__(self, strategy: Strategy, sources: tuple[str, ...] = ("settings",)) -> None:
        self._followed = Followed(strategy, sources)

    def of(self, state: NodeState) -> Followed:
        return self._followed


class MemoryColocationStore(KeyedColocationStore):
    """slackwater.colocation.ports.ColocationStore. Transactions run one after the other; `states` is what is committed
    and may be changed."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.states = self.database.rows(NODE_STATES)
        super().__init__(self.database)

    @property
    def outbox(self) -> list[Event[Any]]:
        return self.database.published

    async def totals(self) -> Sequence[PoolTotals]:
        pools: dict[str, list[NodeState]] = {}
        for state in self.states.values():
            pools.setdefault(state.pool, []).append(state)
        return [_total(pool, states) for pool, states in sorted(pools.items())]

    async def ageing(self, at_seconds: float) -> Sequence[str]:
        return sorted(node for node, state in self.states.items() if _changes_by_itself(state, at_seconds))

    async def at_rest(self, at_seconds: float) -> Sequence[str]:
        return sorted(node for node, state in self.states.items() if not _changes_by_itself(state, at_seconds))

    async def states_of(self, nodes: Sequence[str]) -> Sequence[NodeState]:
        return [self.states[node] for node in nodes if node in self.states]

    async def told_generation(self, node: str) -> int:
        return self.states[node].generation if node in self.states else 0


def _changes_by_itself(state: NodeState, at_seconds: float) -> bool:
    return state.offers_something and state.due_at < at_seconds


def _total(pool: str, states: Sequence[NodeState]) -> PoolTotals:
    def over(state: NodeState) -> bool:
        both = state.batch + state.mid
        return both.smaller_of(state.capacity) != both

    return PoolTotals(
        pool,
        sum((state.capacity for state in states), Resources()),
        sum((state.batch for state in states), Resources()),
        sum((state.mid for state in states), Resources()),
        len(states),
        sum(over(state) for state in states),
    )


class MemoryFollowerStore(KeyedFollowerStore):
    """slackwater.colocation.ports.FollowerStore over the states of a store in memory."""

    def __init__(self, store: MemoryColocationStore) -> None:
        super().__init__(store.database)
        self._store = store

    async def followers(self, most: int) -> Mapping[str, Followers]:
        found: dict[str, list[NodeState]] = {}
        for node in sorted(self._store.states):
            state = self._store.states[node]
            for source in state.strategies:
                found.setdefault(source.partition("@")[0], []).append(state)
        return {source: _counted(states, most) for source, states in found.items()}

    async def following(self, after: str, limit: int) -> Sequence[NodeState]:
        described = [state for state in await self.page(after, len(self._store.states)) if state.described_by]
        return [
            NodeState(
                state.node,
                pool=state.pool,
                words=state.words,
                good_words=state.good_words,
                strategies=state.strategies,
                strategy_problem=state.strategy_problem,
            )
            for state in described[:limit]
        ]


def _counted(states: Sequence[NodeState], most: int) -> Followers:
    bad = tuple((state.node, state.strategy_problem) for state in states if state.strategy_problem)
    return Followers(len(states), len(bad), bad[:most])
