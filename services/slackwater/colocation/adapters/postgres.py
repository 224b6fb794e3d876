"""SQL queries over all nodes: totals by pool, and nodes whose offer is due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from math import ceil

from sqlalchemy import text

from slackwater.colocation.adapters.node_rows import KeyedColocationStore
from slackwater.colocation.adapters.states import NODE_STATES
from slackwater.colocation.ports import LastOffer
from slackwater.model.quantities import Resources
from slackwater.offers.node import NodeState, PoolTotals

LAST_YEAR = 9999
"""A time in it could have no later one."""


def _number(path: str) -> str:
    """Returns SQL for a number within a state, clamped to 64 bits; NULL if the value is not a number."""
    return (
        f"CASE WHEN jsonb_typeof(facts#>'{path}') = 'number' THEN"
        f" greatest(least(CAST(facts#>>'{path}' AS numeric), {2**62}), 0) END"
    )


def _offer(published: str, taken: str) -> str:
    """Returns SQL for an offer in force: the gate's value without what reservations take off."""
    return f"coalesce({_number('{' + published + '}')}, 0) - coalesce({_number('{' + taken + '}')}, 0)"


_TOTALS = text(f"""
SELECT pool, count(*) AS nodes, sum(cpu) AS cpu_milli, sum(memory) AS memory_bytes, sum(batch_cpu) AS batch_cpu_milli,
    sum(batch_memory) AS batch_memory_bytes, sum(mid_cpu) AS mid_cpu_milli, sum(mid_memory) AS mid_memory_bytes,
    count(*) FILTER (WHERE batch_cpu + mid_cpu > cpu OR batch_memory + mid_memory > memory) AS overoffered
FROM (
    SELECT coalesce(facts->>'pool', 'default') AS pool,
        coalesce({_number("{capacity,cpu_milli}")}, 0) AS cpu,
        coalesce({_number("{capacity,memory_bytes}")}, 0) AS memory,
        {_offer("cpu,published", "batch_taken,cpu_milli")} AS batch_cpu,
        {_offer("memory,published", "batch_taken,memory_bytes")} AS batch_memory,
        {_offer("mid_cpu,published", "mid_taken,cpu_milli")} AS mid_cpu,
        {_offer("mid_memory,published", "mid_taken,memory_bytes")} AS mid_memory
    FROM nodes WHERE node <> ALL(CAST(:without AS text[]))
) known GROUP BY pool ORDER BY pool
""")  # noqa: S608 - constants
_LAST_OFFER = text(f"""
SELECT CAST(coalesce({_number("{generation}")}, 0) AS bigint) AS generation, facts#>>'{{told_by,at}}' AS offered_at
FROM nodes WHERE node = :node
""")  # noqa: S608 - constants
_AGEING = text("SELECT node FROM nodes WHERE offers AND due_at < :at ORDER BY node")
_AT_REST = text("SELECT node FROM nodes WHERE NOT (offers AND due_at < :at) ORDER BY node")


class PostgresColocationStore(KeyedColocationStore):
    """Implements slackwater.colocation.ports.ColocationStore."""

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
            return list((await unit.keyed(NODE_STATES, self._quarantine).read(nodes)).values())

    async def last_offer(self, node: str) -> LastOffer:
        async with self._database.unit_of_work() as unit:
            row = (await unit.connection.execute(_LAST_OFFER, {"node": node})).first()
            return LastOffer() if row is None else LastOffer(int(row.generation), _time(row.offered_at))


def _time(text_of_it: str | None) -> datetime | None:
    """The time, if a state that is in quarantine has a readable one."""
    try:
        at = datetime.fromisoformat(text_of_it or "")
    except ValueError:
        return None
    return at if at.tzinfo is not None and at.year < LAST_YEAR else None
