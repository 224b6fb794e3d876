"""Keyed rows in the schema `colocation`: the states of nodes and the findings about strategies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from slackwater.colocation.adapters.states import NODE_STATES
from slackwater.events.envelope import Event
from slackwater.offers.node import NodeState
from slackwater.store.keyed import KeyedTable, RowColumn, only
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored


@dataclass(frozen=True, slots=True)
class NodeFinding:
    """The last published problem of a document; empty once the document is usable again."""

    name: str
    problem: str


FINDINGS: Final[KeyedTable[NodeFinding]] = KeyedTable(
    name="strategy_findings",
    key="name",
    columns=(RowColumn("problem", "text"),),
    key_of=lambda finding: finding.name,
    encode=lambda finding: (finding.problem,),
    decode=lambda row: NodeFinding(row.name, row.problem),
    of_nodes=False,
    touched="told_at",
)


class ColocationUnit:
    """Implements slackwater.colocation.ports.ColocationTransaction. States are read once and written together at the
    end.
    """

    def __init__(self, unit: UnitOfWork, quarantine: Quarantine) -> None:
        self._unit = unit
        self._rows = unit.keyed(NODE_STATES, quarantine)
        self._states: dict[str, NodeState] = {}
        self._changed: dict[str, NodeState] = {}
        self._expected: dict[str, bool] = {}

    async def expect(self, consumer: str, news: Sequence[tuple[str, str]]) -> None:
        ids = {event_id for event_id, _ in news}
        new = await self._unit.first_times(consumer, ids)
        self._expected = {event_id: event_id in new for event_id in ids}
        await self.expect_nodes([node for event_id, node in news if event_id in new])

    async def first_time(self, consumer: str, event_id: str) -> bool:
        if event_id not in self._expected:
            return await self._unit.first_time(consumer, event_id)
        first, self._expected[event_id] = self._expected[event_id], False
        return first

    async def expect_nodes(self, nodes: Sequence[str]) -> None:
        self._states.update(await self._rows.lock(set(nodes) - self._states.keys()))

    async def load(self, node: str) -> NodeState:
        if node not in self._states:
            await self.expect_nodes([node])
        return only(self._states, node)

    async def save(self, state: NodeState) -> None:
        self._states[state.node] = self._changed[state.node] = state

    async def remove(self, node: str) -> None:
        self._states.pop(node, None)
        self._changed.pop(node, None)
        await self._rows.remove([node])

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)

    async def flush(self) -> None:
        """Writes the saved states; runs when the transaction ends without error."""
        await self._rows.write(list(self._changed.values()))


class KeyedColocationStore:
    """The part of slackwater.colocation.ports.ColocationStore that changes states."""

    def __init__(self, database: Database, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._quarantine = quarantine or unstored()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[ColocationUnit]:
        async with self._database.unit_of_work() as unit:
            transaction = ColocationUnit(unit, self._quarantine)
            yield transaction
            await transaction.flush()


class FindingsUnit:
    """Implements slackwater.colocation.ports.TellingTransaction."""

    def __init__(self, unit: UnitOfWork, quarantine: Quarantine) -> None:
        self._unit = unit
        self._rows = unit.keyed(FINDINGS, quarantine)

    async def published_problems(self) -> Mapping[str, str]:
        return {name: finding.problem for name, finding in (await self._rows.read_all()).items() if finding.problem}

    async def publish_problem(self, name: str, problem: str, event: Event[Any]) -> None:
        await self._rows.write([NodeFinding(name, problem)])
        await self._unit.publish(event)

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)


class KeyedFollowerStore:
    """The part of slackwater.colocation.ports.FollowerStore that needs no SQL of its own."""

    def __init__(self, database: Database, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._quarantine = quarantine or unstored()

    async def page(self, after: str, limit: int) -> Sequence[NodeState]:
        async with self._database.unit_of_work() as unit:
            return list((await unit.keyed(NODE_STATES, self._quarantine).page(after, limit)).values())

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[FindingsUnit]:
        async with self._database.unit_of_work() as unit:
            yield FindingsUnit(unit, self._quarantine)
