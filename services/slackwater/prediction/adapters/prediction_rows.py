"""Keyed rows in the schema `prediction`: the published prediction and the description of each node."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.prediction.domain.cadence import Published
from slackwater.prediction.domain.snapshot import Snapshot
from slackwater.prediction.ports import DescribedNode
from slackwater.store.keyed import KeyedTable, RowColumn
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored

_YEAR_9999 = 253_370_764_800
_MOST = 2**62
"""Larger values are refused because their sums do not fit 64 bits."""


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One row of `published_windows`."""

    node: str
    published: Published


@dataclass(frozen=True, slots=True)
class DescribedRow:
    """One row of `nodes`. `at` is the time of the description; the store compares it and does not read it back."""

    node: str
    described: DescribedNode
    at: datetime | None = None


def _published_of(row: Any) -> PublishedRow:
    """Builds a row of `published_windows`. Raises ValueError for an invalid row."""
    whole = all(isinstance(amount, int) for amount in row.amounts)
    if not whole or not 0 <= row.until_seconds < _YEAR_9999 or not math.isfinite(row.published_at):
        raise ValueError(
            f"published_windows: until_seconds {row.until_seconds}, published_at {row.published_at}, amounts"
            f" {row.amounts}; times must be finite and before the year 9999, amounts whole"
        )
    published = Published(
        row.until_seconds, row.published_at, row.policy, row.generation, row.edition, tuple(row.amounts)
    )
    return PublishedRow(row.node, published)


def _described_of(row: Any) -> DescribedRow:
    """Builds a row of `nodes`. Raises ValueError for an invalid row."""
    if not 0 <= row.cpu_milli < _MOST or not 0 <= row.memory_bytes < _MOST:
        raise ValueError(
            f"nodes: cpu_milli {row.cpu_milli}, memory_bytes {row.memory_bytes}; must be 0 to below {_MOST}"
        )
    return DescribedRow(row.node, DescribedNode(Resources(row.cpu_milli, row.memory_bytes), row.pool))


def _published_columns(row: PublishedRow) -> Sequence[Any]:
    published = row.published
    amounts = "{" + ",".join(map(str, published.values)) + "}"
    return (published.until, published.at, published.policy, published.generation, published.edition, amounts)


def _described_columns(row: DescribedRow) -> Sequence[Any]:
    allocatable = row.described.allocatable
    return (allocatable.cpu_milli, allocatable.memory_bytes, row.described.pool, row.at)


PUBLISHED: Final = KeyedTable[PublishedRow](
    name="published_windows",
    key="node",
    columns=(
        RowColumn("until_seconds", "bigint"),
        RowColumn("published_at", "double precision"),
        RowColumn("policy", "text"),
        RowColumn("generation", "bigint"),
        RowColumn("edition", "integer"),
        RowColumn("amounts", "bigint[]"),
    ),
    key_of=lambda row: row.node,
    encode=_published_columns,
    decode=_published_of,
    skips_held=False,
)
DESCRIBED: Final = KeyedTable[DescribedRow](
    name="nodes",
    key="node",
    columns=(
        RowColumn("cpu_milli", "bigint"),
        RowColumn("memory_bytes", "bigint"),
        RowColumn("pool", "text"),
        RowColumn("described_at", "timestamptz", write_only=True),
    ),
    key_of=lambda row: row.node,
    encode=_described_columns,
    decode=_described_of,
    newer="described_at",
    skips_held=False,
)


class Snapshots(Protocol):
    """Storage of the partitions' snapshots."""

    async def keep(self, unit: UnitOfWork, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        """Stores the newest snapshot of a partition and drops all but its `keep` newest."""
        ...

    async def of_partition(self, database: Database, partition: int) -> Sequence[Snapshot]:
        """Returns the stored snapshots of a partition, newest first."""
        ...


class PredictionUnit:
    """Implements slackwater.prediction.ports.PredictionTransaction."""

    def __init__(self, unit: UnitOfWork, snapshots: Snapshots, quarantine: Quarantine) -> None:
        self._unit = unit
        self._snapshots = snapshots
        self._published = unit.keyed(PUBLISHED, quarantine)
        self._described = unit.keyed(DESCRIBED, quarantine)

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)

    async def set_published(self, nodes: Mapping[str, Published]) -> None:
        await self._published.write([PublishedRow(node, published) for node, published in nodes.items()])

    async def keep_snapshot(self, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        self._unit.concerns_partition(partition)
        await self._snapshots.keep(self._unit, partition, snapshot, keep=keep)

    async def describe(self, node: str, described: DescribedNode, described_at: datetime) -> bool:
        return bool(await self._described.write([DescribedRow(node, described, described_at)]))

    async def remove(self, node: str, deleted_at: datetime) -> bool:
        described_at = await self._described.column(node, "described_at")
        if described_at is not None and described_at > deleted_at:
            return False
        await self._described.remove([node])
        return True


class KeyedPredictionStore:
    """Implements slackwater.prediction.ports.PredictionStore."""

    def __init__(self, database: Database, snapshots: Snapshots, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._snapshots = snapshots
        self._quarantine = quarantine or unstored()

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[PredictionUnit]:
        async with self._database.unit_of_work() as unit:
            yield PredictionUnit(unit, self._snapshots, self._quarantine)

    async def snapshots(self, partition: int) -> Sequence[Snapshot]:
        return await self._snapshots.of_partition(self._database, partition)

    async def published(self) -> Mapping[str, Published]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.keyed(PUBLISHED, self._quarantine).read_all()
        return {node: row.published for node, row in rows.items()}

    async def nodes(self) -> Mapping[str, DescribedNode]:
        async with self._database.unit_of_work() as unit:
            rows = await unit.keyed(DESCRIBED, self._quarantine).read_all()
        return {node: row.described for node, row in rows.items()}
