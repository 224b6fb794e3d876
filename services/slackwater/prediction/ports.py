"""What prediction needs from a store: a place for snapshots, for what was published, and for what nodes are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.prediction.domain.cadence import Published
from slackwater.prediction.domain.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of a node apart from its windows: what is allocatable, and its pool."""

    allocatable: Resources
    pool: str


class PredictionTransaction(Protocol):
    """One transaction: all of it happens on leaving its context, or nothing."""

    async def publish(self, event: Event[Any]) -> None:
        """Put an event into the outbox."""
        ...

    async def set_published(self, nodes: Mapping[str, Published]) -> None:
        """What of each node is in the outbox with this transaction, or was before."""
        ...

    async def keep_snapshot(self, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        """Store the newest snapshot of a partition and drop all but its `keep` newest."""
        ...

    async def describe(self, node: str, described: Described, described_at: datetime) -> bool:
        """Remember what a node is; False if a younger description is known."""
        ...


class PredictionStore(Protocol):
    """Raises Unavailable while the store does not answer."""

    def begin(self) -> AbstractAsyncContextManager[PredictionTransaction]: ...

    async def snapshots(self, partition: int) -> Sequence[Snapshot]:
        """All that are kept of a partition, newest first."""
        ...

    async def published(self) -> Mapping[str, Published]: ...

    async def nodes(self) -> Mapping[str, Described]:
        """Every node that was described."""
        ...
