"""The store of prediction in its own PostgreSQL schema."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import text

from slackwater.events.envelope import Event
from slackwater.events.state_quarantined import QuarantineReason
from slackwater.model.quantities import Resources
from slackwater.prediction.domain.cadence import Published
from slackwater.prediction.domain.snapshot import Snapshot
from slackwater.prediction.ports import Described
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored

_KEEP_SNAPSHOT = text(
    "INSERT INTO snapshots (partition, version, position, checksum, body)"
    " VALUES (:partition, :version, :position, :checksum, :body)"
)
_DROP_OLD_SNAPSHOTS = text(
    "DELETE FROM snapshots WHERE partition = :partition AND id NOT IN"
    " (SELECT id FROM snapshots WHERE partition = :partition ORDER BY id DESC LIMIT :keep)"
)
_SNAPSHOTS = text(
    "SELECT version, position, checksum, body FROM snapshots WHERE partition = :partition ORDER BY id DESC"
)
_SET_PUBLISHED = text(
    "INSERT INTO published_windows (node, until_seconds, published_at, policy, generation, edition, amounts)"
    " SELECT node, until_seconds, published_at, policy, generation, edition, amounts::bigint[]"
    " FROM unnest(CAST(:nodes AS text[]), CAST(:untils AS bigint[]), CAST(:ats AS double precision[]),"
    " CAST(:policies AS text[]), CAST(:generations AS bigint[]), CAST(:editions AS integer[]),"
    " CAST(:amounts AS text[])) AS new (node, until_seconds, published_at, policy, generation, edition, amounts)"
    " ON CONFLICT (node) DO UPDATE SET until_seconds = excluded.until_seconds, published_at = excluded.published_at,"
    " policy = excluded.policy, generation = excluded.generation, edition = excluded.edition,"
    " amounts = excluded.amounts"
)
_PUBLISHED = text(
    "SELECT node, until_seconds, published_at, policy, generation, edition, amounts FROM published_windows"
)
_DESCRIBE = text(
    "INSERT INTO nodes (node, cpu_milli, memory_bytes, pool, described_at) VALUES (:node, :cpu, :memory, :pool, :at)"
    " ON CONFLICT (node) DO UPDATE SET cpu_milli = excluded.cpu_milli, memory_bytes = excluded.memory_bytes,"
    " pool = excluded.pool, described_at = excluded.described_at WHERE nodes.described_at <= excluded.described_at"
    " RETURNING node"
)


T = TypeVar("T")
_YEAR_9999 = 253_370_764_800
_MOST = 2**62
"""Beyond, sums no longer fit 64 bits."""


class _Transaction:
    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)

    async def set_published(self, nodes: Mapping[str, Published]) -> None:
        if not nodes:
            return
        self._unit.concerns(*nodes)
        names = sorted(nodes)
        ordered = [nodes[name] for name in names]
        values = {
            "nodes": names,
            "untils": [one.until for one in ordered],
            "ats": [one.at for one in ordered],
            "policies": [one.policy for one in ordered],
            "generations": [one.generation for one in ordered],
            "editions": [one.edition for one in ordered],
            "amounts": ["{" + ",".join(map(str, one.values)) + "}" for one in ordered],
        }
        await self._unit.connection.execute(_SET_PUBLISHED, values)

    async def keep_snapshot(self, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        self._unit.concerns_partition(partition)
        values = {"version": snapshot.version, "position": snapshot.position, "checksum": snapshot.checksum}
        body = {"partition": partition, "body": snapshot.body}
        await self._unit.connection.execute(_KEEP_SNAPSHOT, {**values, **body})
        await self._unit.connection.execute(_DROP_OLD_SNAPSHOTS, {"partition": partition, "keep": keep})

    async def describe(self, node: str, described: Described, described_at: datetime) -> bool:
        self._unit.concerns(node)
        amount = described.allocatable
        size = {"cpu": amount.cpu_milli, "memory": amount.memory_bytes}
        values = {"node": node, **size, "pool": described.pool, "at": described_at}
        rows = await self._unit.connection.execute(_DESCRIBE, values)
        return rows.first() is not None


class PostgresPredictionStore:
    """See slackwater.prediction.ports.PredictionStore."""

    def __init__(self, database: Database, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._quarantine = quarantine or unstored()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[_Transaction]:
        async with self._database.unit_of_work() as unit:
            yield _Transaction(unit)

    async def snapshots(self, partition: int) -> Sequence[Snapshot]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(_SNAPSHOTS, {"partition": partition})
            return [Snapshot(row.version, row.position, row.checksum, bytes(row.body)) for row in rows]

    async def published(self) -> Mapping[str, Published]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(_PUBLISHED)
            return self._readable("published_windows", rows, _published)

    async def nodes(self) -> Mapping[str, Described]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(text("SELECT node, cpu_milli, memory_bytes, pool FROM nodes"))
            return self._readable("nodes", rows, _described)

    def _readable(self, table: str, rows: Iterable[Any], read: Callable[[Any], T]) -> Mapping[str, T]:
        """By node; rows that cannot be used are noted and left out."""
        found: dict[str, T] = {}
        for row in rows:
            try:
                found[row.node] = read(row)
            except ValueError as error:
                unreadable = QuarantineReason.UNREADABLE
                self._quarantine.note(table, row.node, error, reason=unreadable, node=row.node, document=tuple(row))
        return found


def _published(row: Any) -> Published:
    """Raises ValueError for what was never published."""
    whole = all(isinstance(amount, int) for amount in row.amounts)
    if not whole or not 0 <= row.until_seconds < _YEAR_9999 or not math.isfinite(row.published_at):
        raise ValueError(f"until {row.until_seconds}, at {row.published_at}, amounts {row.amounts}")
    return Published(row.until_seconds, row.published_at, row.policy, row.generation, row.edition, tuple(row.amounts))


def _described(row: Any) -> Described:
    """Raises ValueError for what no node has."""
    if not 0 <= row.cpu_milli < _MOST or not 0 <= row.memory_bytes < _MOST:
        raise ValueError(f"{row.cpu_milli} milli-cores, {row.memory_bytes} bytes")
    return Described(Resources(row.cpu_milli, row.memory_bytes), row.pool)
