"""The store of prediction in memory: same promises as PostgreSQL, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.prediction.domain.snapshot import Snapshot


@dataclass
class _Content:
    outbox: list[Event[Any]] = field(default_factory=list)
    published: dict[str, int] = field(default_factory=dict)
    snapshots: dict[int, tuple[Snapshot, ...]] = field(default_factory=dict)
    nodes: dict[str, tuple[Resources, datetime]] = field(default_factory=dict)

    def copy(self) -> _Content:
        return _Content(list(self.outbox), dict(self.published), dict(self.snapshots), dict(self.nodes))


class _Transaction:
    def __init__(self, content: _Content) -> None:
        self.content = content

    async def publish(self, event: Event[Any]) -> None:
        self.content.outbox.append(event)

    async def set_published(self, until_seconds: Mapping[str, int]) -> None:
        self.content.published.update(until_seconds)

    async def keep_snapshot(self, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        self.content.snapshots[partition] = (snapshot, *self.content.snapshots.get(partition, ()))[:keep]

    async def describe(self, node: str, allocatable: Resources, described_at: datetime) -> None:
        known = self.content.nodes.get(node)
        if known is None or known[1] <= described_at:
            self.content.nodes[node] = (allocatable, described_at)


class MemoryPredictionStore:
    """`committed` is what survives; a transaction works on a copy and replaces it when it ends well."""

    def __init__(self) -> None:
        self.committed = _Content()

    @property
    def outbox(self) -> list[Event[Any]]:
        return self.committed.outbox

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[_Transaction]:
        transaction = _Transaction(self.committed.copy())
        yield transaction
        self.committed = transaction.content

    async def snapshots(self, partition: int) -> Sequence[Snapshot]:
        return self.committed.snapshots.get(partition, ())

    async def published(self) -> Mapping[str, int]:
        return dict(self.committed.published)

    async def nodes(self) -> Mapping[str, Resources]:
        return {node: allocatable for node, (allocatable, _) in self.committed.nodes.items()}
