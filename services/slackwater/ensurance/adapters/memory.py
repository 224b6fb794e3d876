"""The store in memory: the same promises as PostgreSQL's, over slackwater.testing.store.MemoryDatabase."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from slackwater.ensurance.domain.guarded import Guarded
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.events.envelope import Event
from slackwater.model.errors import Conflict
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.testing.store import MemoryDatabase, MemoryUnitOfWork


class MemoryGuardStore:
    """slackwater.ensurance.ports.GuardStore. `rows` and `standings` hold what is committed."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self.rows: dict[str, Guarded] = {}
        self.standings: dict[str, PoolStanding] = {}
        self.writes = 0

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[MemoryGuardUnit]:
        async with self._database.unit_of_work() as unit:
            yield MemoryGuardUnit(self, unit)
            self.writes += bool(unit.events or unit.effects)


class MemoryGuardUnit:
    """slackwater.ensurance.ports.GuardUnit."""

    def __init__(self, store: MemoryGuardStore, unit: MemoryUnitOfWork) -> None:
        self._store = store
        self._unit = unit

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)

    async def nodes(self, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[Guarded]:
        return [guarded for node, guarded in self._store.rows.items() if partition_of(node) in partitions]

    async def save(self, guarded: Guarded, *, last: bool = False) -> Guarded:
        self._unit.concerns(guarded.node)
        present = self._store.rows.get(guarded.node)
        if (present.version if present is not None else 0) != guarded.version:
            raise Conflict(f"node {guarded.node}: version {guarded.version} is not the one that is stored")
        written = replace(guarded, version=guarded.version + 1)
        self._unit.on_commit(lambda: self._store.rows.__setitem__(guarded.node, written))
        return written

    async def generation(self, node: str) -> int:
        return self._store.rows[node].generation if node in self._store.rows else 0

    async def autonomies(self) -> Sequence[PoolStanding]:
        return list(self._store.standings.values())

    async def save_autonomy(self, standing: PoolStanding) -> PoolStanding:
        present = self._store.standings.get(standing.pool)
        if (present.version if present is not None else 0) != standing.version:
            raise Conflict(f"pool {standing.pool}: version {standing.version} is not the one that is stored")
        written = replace(standing, version=standing.version + 1)
        self._unit.on_commit(lambda: self._store.standings.__setitem__(standing.pool, written))
        return written
