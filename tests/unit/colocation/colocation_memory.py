"""What colocation asks in SQL of all its nodes, folded from their states in a database in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from tests.support.statements import Answers, StatementUnit
from tests.support.store import MemoryDatabase

from slackwater.colocation.adapters.node_rows import KeyedFollowerStore
from slackwater.colocation.adapters.postgres import PostgresColocationStore
from slackwater.colocation.adapters.postgres_following import PostgresFollowerStore
from slackwater.colocation.adapters.states import NODE_STATES, kept_of
from slackwater.colocation.ports import FollowedStrategy
from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.offers.node import NodeState
from slackwater.offers.strategy import Strategy

Values = Mapping[str, Any]


class OneStrategy:
    """slackwater.colocation.ports.Strategies. Every node follows the same one."""

    def __init__(self, strategy: Strategy, sources: tuple[str, ...] = ("settings",)) -> None:
        self._followed = FollowedStrategy(strategy, sources)

    def of(self, state: NodeState) -> FollowedStrategy:
        return self._followed


class MemoryColocationStore(PostgresColocationStore):
    """Over a database in memory. `states` is what is committed, and may be changed."""

    def __init__(self) -> None:
        self.database = answer_colocation(MemoryDatabase())
        self.states = self.database.rows(NODE_STATES)
        super().__init__(self.database)

    @property
    def outbox(self) -> list[Event[Any]]:
        return self.database.published

    async def states_of(self, nodes: Sequence[str]) -> Sequence[NodeState]:
        """Also within a transaction, as PostgreSQL answers without a lock."""
        return [self.states[node] for node in nodes if node in self.states]


def followers_of(store: MemoryColocationStore) -> KeyedFollowerStore:
    return PostgresFollowerStore(store.database)


def answer_colocation(database: MemoryDatabase) -> MemoryDatabase:
    """The database with answers to the statements of colocation's adapters."""
    _answer_nodes(database.answers, database.rows(NODE_STATES))
    _answer_followers(database.answers, database.rows(NODE_STATES))
    return database


def _answer_nodes(answers: Answers, states: Mapping[str, NodeState]) -> None:
    def node_names(*, ageing: bool) -> Any:
        def answer(_: StatementUnit, __: re.Match[str], values: Values) -> Sequence[Any]:
            found = (s for s in states.values() if (s.offers_something and s.due_at < values["at"]) == ageing)
            return [SimpleNamespace(node=state.node) for state in sorted(found, key=lambda state: state.node)]

        return answer

    def totals(_: StatementUnit, __: re.Match[str], values: Values) -> Sequence[Any]:
        pools: dict[str, list[NodeState]] = {}
        for state in states.values():
            if state.node not in values["without"]:
                pools.setdefault(state.pool, []).append(state)
        return [_total(pool, of_pool) for pool, of_pool in sorted(pools.items())]

    def generation(_: StatementUnit, __: re.Match[str], values: Values) -> Sequence[Any]:
        node = values["node"]
        return [SimpleNamespace(generation=states[node].generation)] if node in states else []

    answers.add(r"^SELECT pool, count\(\*\) AS nodes", totals)
    answers.add(r"AS generation FROM nodes WHERE node", generation)
    answers.add(r"^SELECT node FROM nodes WHERE offers AND due_at", node_names(ageing=True))
    answers.add(r"^SELECT node FROM nodes WHERE NOT", node_names(ageing=False))


def _answer_followers(answers: Answers, states: Mapping[str, NodeState]) -> None:
    def followed() -> dict[str, list[NodeState]]:
        found: dict[str, list[NodeState]] = {}
        for node in sorted(states):
            for source in states[node].strategies:
                found.setdefault(source.partition("@")[0], []).append(states[node])
        return found

    def counts(_: StatementUnit, __: re.Match[str], ___: Values) -> Sequence[Any]:
        return [
            SimpleNamespace(title=title, nodes=len(found), bad=sum(bool(s.strategy_problem) for s in found))
            for title, found in followed().items()
        ]

    def problems(_: StatementUnit, __: re.Match[str], values: Values) -> Sequence[Any]:
        return [
            SimpleNamespace(title=title, node=state.node, strategy_problem=state.strategy_problem)
            for title, found in sorted(followed().items())
            for state in [state for state in found if state.strategy_problem][: values["most"]]
        ]

    def following(_: StatementUnit, __: re.Match[str], values: Values) -> Sequence[Any]:
        described = [states[node] for node in sorted(states) if node > values["after"] and states[node].described_by]
        return [SimpleNamespace(node=s.node, facts=kept_of(_followed(s))[0]) for s in described[: values["limit"]]]

    answers.add(r"^SELECT split_part\(source", counts)
    answers.add(r"^SELECT title, node, strategy_problem", problems)
    answers.add(r"^SELECT node, CAST\(jsonb_build_object", following)


def _followed(state: NodeState) -> NodeState:
    return NodeState(
        state.node,
        pool=state.pool,
        words=state.words,
        good_words=state.good_words,
        strategies=state.strategies,
        strategy_problem=state.strategy_problem,
    )


def _total(pool: str, states: Sequence[NodeState]) -> SimpleNamespace:
    def over(state: NodeState) -> bool:
        both = state.batch + state.mid
        return both.smaller_of(state.capacity) != both

    capacity = sum((state.capacity for state in states), Resources())
    batch = sum((state.batch for state in states), Resources())
    mid = sum((state.mid for state in states), Resources())
    return SimpleNamespace(
        pool=pool,
        nodes=len(states),
        overoffered=sum(over(state) for state in states),
        cpu_milli=capacity.cpu_milli,
        memory_bytes=capacity.memory_bytes,
        batch_cpu_milli=batch.cpu_milli,
        batch_memory_bytes=batch.memory_bytes,
        mid_cpu_milli=mid.cpu_milli,
        mid_memory_bytes=mid.memory_bytes,
    )
