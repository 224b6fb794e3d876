"""Snapshots of partitions in the schema `prediction`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text

from slackwater.prediction.domain.snapshot import Snapshot
from slackwater.store.port import Database, UnitOfWork

_KEEP = text(
    "INSERT INTO snapshots (partition, version, position, checksum, body)"
    " VALUES (:partition, :version, :position, :checksum, :body)"
)
_DROP_OLD = text(
    "DELETE FROM snapshots WHERE partition = :partition AND id NOT IN"
    " (SELECT id FROM snapshots WHERE partition = :partition ORDER BY id DESC LIMIT :keep)"
)
_SNAPSHOTS = text(
    "SELECT version, position, checksum, body FROM snapshots WHERE partition = :partition ORDER BY id DESC"
)


class PostgresSnapshots:
    """Implements slackwater.prediction.adapters.prediction_rows.Snapshots."""

    async def keep(self, unit: UnitOfWork, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        values = {"version": snapshot.version, "position": snapshot.position, "checksum": snapshot.checksum}
        await unit.connection.execute(_KEEP, {**values, "partition": partition, "body": snapshot.body})
        await unit.connection.execute(_DROP_OLD, {"partition": partition, "keep": keep})

    async def of_partition(self, database: Database, partition: int) -> Sequence[Snapshot]:
        async with database.unit_of_work() as unit:
            rows = await unit.connection.execute(_SNAPSHOTS, {"partition": partition})
            return [Snapshot(row.version, row.position, row.checksum, bytes(row.body)) for row in rows]
