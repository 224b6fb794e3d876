"""What prediction needs from a store: a place for snapshots, for what was published, and for nodes' sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

from slackwater.events.envelope import Event
from slackwater.model.quantities import Resources
from slackwater.prediction.domain.snapshot import Snapshot


class PredictionTransaction(Protocol):
    """One transaction: all of it happens on leaving its context, or nothing."""

    async def publish(self, event: Event[Any]) -> None:
        """Put an event into the outbox."""
        ...

    async def set_published(self, until_seconds: Mapping[str, int]) -> None:
        """Per node, the end (seconds since 1970) of the last window whose prediction is in the outbox."""
        ...

    async def keep_snapshot(self, partition: int, snapshot: Snapshot, *, keep: int) -> None:
        """Store the newest snapshot of a partition and drop all but its `keep` newest."""
        ...

    async def describe(self, node: str, allocatable: Resources, described_at: datetime) -> None:
        """Remember a node's size unless a younger description is known."""
        ...


class PredictionStore(Protocol):
    """Raises Unavailable while the store does not answer."""

    def begin(self) -> AbstractAsyncContextManager[PredictionTransaction]: ...

    async def snapshots(self, partition: int) -> Sequence[Snapshot]:
        """All that are kept of a partition, newest first."""
        ...

    async def published(self) -> Mapping[str, int]: ...

    async def nodes(self) -> Mapping[str, Resources]:
        """Allocatable of every node that was described."""
        ...
