"""The store of colocation in its own PostgreSQL schema: one row per node, with its state in two parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from math import ceil
from typing import Any

from sqlalchemy import text

from slackwater.colocation.adapters.states import kept_of, readable_states
from slackwater.colocation.domain.node import NodeState, PoolTotals
from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.store.inbox import first_times
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine, Unreadable
from slackwater.store.quarantine_memory import unstored

_APPEAR = text("""
INSERT INTO nodes (node, facts, window_end, due_at, offers)
SELECT node, CAST(facts AS jsonb), 0, 0, false
FROM unnest(CAST(:nodes AS text[]), CAST(:facts AS text[])) AS new(node, facts) ORDER BY node
ON CONFLICT (node) DO NOTHING
""")
_LOAD = text(
    "SELECT node, CAST(facts AS text) AS facts, held FROM nodes WHERE node = ANY(:nodes) ORDER BY node FOR UPDATE"
)
_SAVE = text("""
UPDATE nodes SET facts = CAST(new.facts AS jsonb), held = new.held, window_end = new.window_end, due_at = new.due_at,
    offers = new.offers, changed_at = now()
FROM unnest(CAST(:nodes AS text[]), CAST(:facts AS text[]), CAST(:held AS text[]), CAST(:window_ends AS bigint[]),
    CAST(:dues AS bigint[]), CAST(:offers AS boolean[])) AS new(node, facts, held, window_end, due_at, offers)
WHERE nodes.node = new.node
""")


def _number(path: str) -> str:
    """A number within a state, kept to 64 bits; nothing where something else stands there."""
    return (
        f"CASE WHEN jsonb_typeof(facts#>'{path}') = 'number' THEN"
        f" greatest(least(CAST(facts#>>'{path}' AS numeric), {2**62}), 0) END"
    )


_TOTALS = text(f"""
SELECT pool, count(*) AS nodes, sum(cpu) AS cpu_milli, sum(memory) AS memory_bytes, sum(batch_cpu) AS batch_cpu_milli,
    sum(batch_memory) AS batch_memory_bytes, sum(mid_cpu) AS mid_cpu_milli, sum(mid_memory) AS mid_memory_bytes,
    count(*) FILTER (WHERE batch_cpu + mid_cpu > cpu OR batch_memory + mid_memory > memory) AS overoffered
FROM (
    SELECT coalesce(facts->>'pool', 'default') AS pool,
        coalesce({_number("{capacity,cpu_milli}")}, 0) AS cpu,
        coalesce({_number("{capacity,memory_bytes}")}, 0) AS memory,
        coalesce({_number("{cpu,published}")}, 0) AS batch_cpu,
        coalesce({_number("{memory,published}")}, 0) AS batch_memory,
        coalesce({_number("{mid_cpu,published}")}, 0) AS mid_cpu,
        coalesce({_number("{mid_memory,published}")}, 0) AS mid_memory
    FROM nodes WHERE node <> ALL(CAST(:without AS text[]))
) known GROUP BY pool ORDER BY pool
""")  # noqa: S608 - constants
_TOLD_GENERATION = text(
    f"SELECT CAST(coalesce({_number('{generation}')}, 0) AS bigint) AS generation FROM nodes WHERE node = :node"  # noqa: S608 - constants
)
_AGEING = text("SELECT node FROM nodes WHERE offers AND due_at < :at ORDER BY node")
_AT_REST = text("SELECT node FROM nodes WHERE NOT (offers AND due_at < :at) ORDER BY node")
_STATES = text("SELECT node, CAST(facts AS text) AS facts, held FROM nodes WHERE node = ANY(:nodes) ORDER BY node")


class _Transaction:
    """States are read once and written at the end, all together."""

    def __init__(self, unit: UnitOfWork, quarantine: Quarantine) -> None:
        self._unit = unit
        self._quarantine = quarantine
        self._states: dict[str, NodeState] = {}
        self._changed: dict[str, NodeState] = {}
        self._expected: dict[str, bool] = {}

    async def expect(self, consumer: str, news: Sequence[tuple[str, str]]) -> None:
        ids = {event_id for event_id, _ in news}
        new = await first_times(self._unit.connection, consumer, ids)
        self._expected = {event_id: event_id in new for event_id in ids}
        await self._load({node for event_id, node in news if event_id in new})

    async def first_time(self, consumer: str, event_id: str) -> bool:
        if event_id not in self._expected:
            return await self._unit.first_time(consumer, event_id)
        first, self._expected[event_id] = self._expected[event_id], False
        return first

    async def expect_nodes(self, nodes: Sequence[str]) -> None:
        await self._load(set(nodes) - self._states.keys())

    async def load(self, node: str) -> NodeState:
        if node not in self._states:
            await self._load({node})
        if node not in self._states:
            raise Unreadable(f"the state of {node} cannot be read")
        return self._states[node]

    async def _load(self, nodes: Collection[str]) -> None:
        """Rows are made first, so that two events of a new node wait for each other too."""
        if not nodes:
            return
        self._unit.concerns(*nodes)
        empty = [kept_of(NodeState(node))[0] for node in nodes]
        await self._unit.connection.execute(_APPEAR, {"nodes": list(nodes), "facts": empty})
        for row in await self._unit.connection.execute(_LOAD, {"nodes": list(nodes)}):
            for state in readable_states([row], self._quarantine):
                self._states[row.node] = state

    async def save(self, state: NodeState) -> None:
        self._states[state.node] = self._changed[state.node] = state

    async def flush(self) -> None:
        """Write what was saved; done when the transaction ends well."""
        if not self._changed:
            return
        states = [self._changed[node] for node in sorted(self._changed)]
        kept = [kept_of(state) for state in states]
        values = {
            "nodes": [state.node for state in states],
            "facts": [facts for facts, _ in kept],
            "held": [held for _, held in kept],
            "window_ends": [state.window_end for state in states],
            "dues": [state.due_at for state in states],
            "offers": [state.offers_something for state in states],
        }
        await self._unit.connection.execute(_SAVE, values)

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)


class PostgresColocationStore:
    """See slackwater.colocation.ports.ColocationStore."""

    def __init__(self, database: Database, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._quarantine = quarantine or unstored()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[_Transaction]:
        async with self._database.unit_of_work() as unit:
            transaction = _Transaction(unit, self._quarantine)
            yield transaction
            await transaction.flush()

    async def totals(self) -> Sequence[PoolTotals]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(_TOTALS, {"without": list(self._quarantine.nodes)})
            return [
                PoolTotals(
                    row.pool,
                    Resources(int(row.cpu_milli), int(row.memory_bytes)),
                    Resources(int(row.batch_cpu_milli), int(row.batch_memory_bytes)),
                    Resources(int(row.mid_cpu_milli), int(row.mid_memory_bytes)),
                    row.nodes,
                    row.overoffered,
                )
                for row in rows
            ]

    async def ageing(self, at_seconds: float) -> Sequence[str]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(_AGEING, {"at": ceil(at_seconds)})
            return [row.node for row in rows]

    async def at_rest(self, at_seconds: float) -> Sequence[str]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(_AT_REST, {"at": ceil(at_seconds)})
            return [row.node for row in rows]

    async def states_of(self, nodes: Sequence[str]) -> Sequence[NodeState]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(_STATES, {"nodes": list(nodes)})
            return list(readable_states(rows, self._quarantine))

    async def told_generation(self, node: str) -> int:
        async with self._database.unit_of_work() as unit:
            row = (await unit.connection.execute(_TOLD_GENERATION, {"node": node})).first()
            return 0 if row is None else int(row.generation)
