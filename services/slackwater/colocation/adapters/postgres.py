"""The store of colocation in its own PostgreSQL schema: one row per node, its state as one JSON document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import text

from slackwater.colocation.domain.node import NodeState, PoolTotals
from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.store.port import Database, UnitOfWork

_STATE = TypeAdapter(NodeState)
_APPEAR = text(
    "INSERT INTO nodes (node, state, window_end, offers) VALUES (:node, CAST(:state AS jsonb), 0, false)"
    " ON CONFLICT (node) DO NOTHING"
)
_LOAD = text("SELECT CAST(state AS text) FROM nodes WHERE node = :node FOR UPDATE")
_SAVE = text(
    "UPDATE nodes SET state = CAST(:state AS jsonb), window_end = :window_end, offers = :offers, changed_at = now()"
    " WHERE node = :node"
)
_TOTALS = text("""
SELECT pool, count(*) AS nodes, sum(cpu) AS cpu_milli, sum(memory) AS memory_bytes, sum(batch_cpu) AS batch_cpu_milli,
    sum(batch_memory) AS batch_memory_bytes,
    count(*) FILTER (WHERE batch_cpu > cpu OR batch_memory > memory) AS overoffered
FROM (
    SELECT coalesce(state->>'pool', 'default') AS pool,
        CAST(state#>>'{capacity,cpu_milli}' AS bigint) AS cpu,
        CAST(state#>>'{capacity,memory_bytes}' AS bigint) AS memory,
        coalesce(CAST(state#>>'{cpu,published}' AS bigint), 0) AS batch_cpu,
        coalesce(CAST(state#>>'{memory,published}' AS bigint), 0) AS batch_memory
    FROM nodes
) known GROUP BY pool ORDER BY pool
""")
_AGEING = text("SELECT node FROM nodes WHERE offers AND window_end < :before ORDER BY node")


class _Transaction:
    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit

    async def first_time(self, consumer: str, event_id: str) -> bool:
        return await self._unit.first_time(consumer, event_id)

    async def load(self, node: str) -> NodeState:
        """The row is made first, so that two events of a new node wait for each other too."""
        self._unit.concerns(node)
        empty = _STATE.dump_json(NodeState(node)).decode()
        await self._unit.connection.execute(_APPEAR, {"node": node, "state": empty})
        document = (await self._unit.connection.execute(_LOAD, {"node": node})).scalar_one()
        return _STATE.validate_json(document)

    async def save(self, state: NodeState) -> None:
        values = {"node": state.node, "window_end": state.window_end, "offers": state.offers_something}
        await self._unit.connection.execute(_SAVE, {**values, "state": _STATE.dump_json(state).decode()})

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)


class PostgresColocationStore:
    """See slackwater.colocation.ports.ColocationStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[_Transaction]:
        async with self._database.unit_of_work() as unit:
            yield _Transaction(unit)

    async def totals(self) -> Sequence[PoolTotals]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(_TOTALS)
            return [
                PoolTotals(
                    row.pool,
                    Resources(int(row.cpu_milli), int(row.memory_bytes)),
                    Resources(int(row.batch_cpu_milli), int(row.batch_memory_bytes)),
                    row.nodes,
                    row.overoffered,
                )
                for row in rows
            ]

    async def ageing(self, before_seconds: float) -> Sequence[str]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(_AGEING, {"before": before_seconds})
            return [row.node for row in rows]
