"""Who follows which documents, in memory: same promises as PostgreSQL, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from slackwater.colocation.adapters.memory import MemoryColocationStore
from slackwater.colocation.domain.node import NodeState
from slackwater.colocation.ports import Followers
from slackwater.events.envelope import Event


class _Telling:
    def __init__(self, told: dict[str, str], outbox: list[Event[Any]]) -> None:
        self._told = told
        self._outbox = outbox

    async def told(self) -> Mapping[str, str]:
        return {name: why for name, why in self._told.items() if why}

    async def tell(self, name: str, problem: str, event: Event[Any]) -> None:
        self._told[name] = problem
        self._outbox.append(event)

    async def publish(self, event: Event[Any]) -> None:
        self._outbox.append(event)


class MemoryFollowerStore:
    """slackwater.colocation.ports.FollowerStore over the states of a store in memory."""

    def __init__(self, store: MemoryColocationStore) -> None:
        self._store = store
        self._told: dict[str, str] = {}

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

    async def page(self, after: str, limit: int) -> Sequence[NodeState]:
        return [self._store.states[node] for node in sorted(self._store.states) if node > after][:limit]

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[_Telling]:
        yield _Telling(self._told, self._store.outbox)


def _counted(states: Sequence[NodeState], most: int) -> Followers:
    bad = tuple((state.node, state.strategy_problem) for state in states if state.strategy_problem)
    return Followers(len(states), len(bad), bad[:most])
