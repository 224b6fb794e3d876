"""The store of prediction over a database in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.events.envelope import Event
from slackwater.prediction.adapters.prediction_rows import KeyedPredictionStore
from slackwater.prediction.domain.snapshot import Snapshot
from slackwater.store.port import Database, UnitOfWork
from slackwater.testing.store import MemoryDatabase, MemoryUnitOfWork


class MemorySnapshots:
    """slackwater.prediction.adapters.prediction_rows.Snapshots. `kept` has those of each partition, newest first."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Snapshot, ...]] = {}

    async def keep(self, unit: UnitOfWork, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        assert isinstance(unit, MemoryUnitOfWork)
        newest = (snapshot, *self.kept.get(partition, ()))[:keep]
        unit.on_commit(lambda: self.kept.update({partition: newest}))

    async def of_partition(self, database: Database, partition: int) -> Sequence[Snapshot]:
        return self.kept.get(partition, ())


class MemoryPredictionStore(KeyedPredictionStore):
    """What is committed is in `database` and `kept_snapshots`; `outbox` has the events."""

    def __init__(self) -> None:
        self.database, kept = MemoryDatabase(), MemorySnapshots()
        super().__init__(self.database, kept)
        self.kept_snapshots = kept.kept

    @property
    def outbox(self) -> list[Event[Any]]:
        return self.database.published
