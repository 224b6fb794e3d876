"""The store of colocation in memory: same promises as PostgreSQL, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from slackwater.colocation.domain.node import NodeState, PoolTotals
from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources


class _Transaction:
    def __init__(self, states: dict[str, NodeState], handled: set[tuple[str, str]]) -> None:
        self.states = dict(states)
        self.handled = set(handled)
        self.events: list[Event[Any]] = []

    async def expect(self, consumer: str, news: Sequence[tuple[str, str]]) -> None:
        """Everything is at hand."""

    async def first_time(self, consumer: str, event_id: str) -> bool:
        if (consumer, event_id) in self.handled:
            return False
        self.handled.add((consumer, event_id))
        return True

    async def expect_nodes(self, nodes: Sequence[str]) -> None:
        """Everything is at hand."""

    async def load(self, node: str) -> NodeState:
        return self.states.get(node, NodeState(node))

    async def save(self, state: NodeState) -> None:
        self.states[state.node] = state

    async def publish(self, event: Event[Any]) -> None:
        self.events.append(event)


class MemoryColocationStore:
    """Transactions run one after the other; what they changed is seen when they ended well."""

    def __init__(self) -> None:
        self.states: dict[str, NodeState] = {}
        self.outbox: list[Event[Any]] = []
        self._handled: set[tuple[str, str]] = set()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[_Transaction]:
        async with self._turn:
            transaction = _Transaction(self.states, self._handled)
            yield transaction
            self.states, self._handled = transaction.states, transaction.handled
            self.outbox += transaction.events

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
