"""The store of prediction in its own PostgreSQL schema."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import text

from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.prediction.domain.snapshot import Snapshot
from slackwater.store.port import Database, UnitOfWork

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
    "INSERT INTO published_windows (node, until_seconds)"
    " SELECT * FROM unnest(CAST(:nodes AS text[]), CAST(:untils AS bigint[]))"
    " ON CONFLICT (node) DO UPDATE SET until_seconds = excluded.until_seconds"
)
_DESCRIBE = text(
    "INSERT INTO nodes (node, cpu_milli, memory_bytes, described_at) VALUES (:node, :cpu, :memory, :at)"
    " ON CONFLICT (node) DO UPDATE SET cpu_milli = excluded.cpu_milli, memory_bytes = excluded.memory_bytes,"
    " described_at = excluded.described_at WHERE nodes.described_at <= excluded.described_at"
)


class _Transaction:
    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)

    async def set_published(self, until_seconds: Mapping[str, int]) -> None:
        if until_seconds:
            self._unit.concerns(*until_seconds)
            nodes = sorted(until_seconds)
            untils = [until_seconds[node] for node in nodes]
            await self._unit.connection.execute(_SET_PUBLISHED, {"nodes": nodes, "untils": untils})

    async def keep_snapshot(self, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        self._unit.concerns_partition(partition)
        values = {"version": snapshot.version, "position": snapshot.position, "checksum": snapshot.checksum}
        body = {"partition": partition, "body": snapshot.body}
        await self._unit.connection.execute(_KEEP_SNAPSHOT, {**values, **body})
        await self._unit.connection.execute(_DROP_OLD_SNAPSHOTS, {"partition": partition, "keep": keep})

    async def describe(self, node: str, allocatable: Resources, described_at: datetime) -> None:
        self._unit.concerns(node)
        size = {"cpu": allocatable.cpu_milli, "memory": allocatable.memory_bytes}
        await self._unit.connection.execute(_DESCRIBE, {"node": node, **size, "at": described_at})


class PostgresPredictionStore:
    """See slackwater.prediction.ports.PredictionStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[_Transaction]:
        async with self._database.unit_of_work() as unit:
            yield _Transaction(unit)

    async def snapshots(self, partition: int) -> Sequence[Snapshot]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(_SNAPSHOTS, {"partition": partition})
            return [Snapshot(row.version, row.position, row.checksum, bytes(row.body)) for row in rows]

    async def published(self) -> Mapping[str, int]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(text("SELECT node, until_seconds FROM published_windows"))
            return {row.node: row.until_seconds for row in rows}

    async def nodes(self) -> Mapping[str, Resources]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.connection.execute(text("SELECT node, cpu_milli, memory_bytes FROM nodes"))
            return {row.node: Resources(row.cpu_milli, row.memory_bytes) for row in rows}
