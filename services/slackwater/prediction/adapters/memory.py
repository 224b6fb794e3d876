"""The store of prediction in memory: same promises as PostgreSQL, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from slackwater.events.envelope import Event
from slackwater.prediction.domain.cadence import Published
from slackwater.prediction.domain.snapshot import Snapshot
from slackwater.prediction.ports import Described


@dataclass
class _Content:
    outbox: list[Event[Any]] = field(default_factory=list)
    published: dict[str, Published] = field(default_factory=dict)
    snapshots: dict[int, tuple[Snapshot, ...]] = field(default_factory=dict)
    nodes: dict[str, tuple[Described, datetime]] = field(default_factory=dict)

    def copy(self) -> _Content:
        return _Content(list(self.outbox), dict(self.published), dict(self.snapshots), dict(self.nodes))


class _Transaction:
    def __init__(self, content: _Content) -> None:
        self.content = content

    async def publish(self, event: Event[Any]) -> None:
        self.content.outbox.append(event)

    async def set_published(self, nodes: Mapping[str, Published]) -> None:
        self.content.published.update(nodes)

    async def keep_snapshot(self, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        self.content.snapshots[partition] = (snapshot, *self.content.snapshots.get(partition, ()))[:keep]

    async def describe(self, node: str, described: Described, described_at: datetime) -> bool:
        known = self.content.nodes.get(node)
        if known is not None and known[1] > described_at:
            return False
        self.content.nodes[node] = (described, described_at)
        return True


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

    async def published(self) -> Mapping[str, Published]:
        return dict(self.committed.published)

    async def nodes(self) -> Mapping[str, Described]:
        return {node: described for node, (described, _) in self.committed.nodes.items()}
