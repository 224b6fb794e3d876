"""The living state of prediction, and how it survives: snapshot with position, restore, publish exactly once.

Folding changes memory only. What follows from it (predictions, decisions) waits in `pending` until one transaction
puts it into the outbox together with how far each node was published; a snapshot is written in such a transaction
too, so that what a snapshot contains has always been published. After a crash the windows since the newest valid
snapshot are folded again; those that had been published are not published twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.events.envelope import Event
from slackwater.model.errors import Fenced, InvalidInput
from slackwater.model.quantities import Resources
from slackwater.prediction.domain.peaks import PeakSettings
from slackwater.prediction.domain.series import ModelSettings, PredictionState
from slackwater.prediction.domain.snapshot import Snapshot, decode, freeze, pack
from slackwater.prediction.ports import PredictionStore


@dataclass(frozen=True, slots=True)
class PredictionPolicy:
    """Everything that can be set about the predictions themselves."""

    model: ModelSettings = field(default_factory=ModelSettings)
    peaks: PeakSettings = field(default_factory=PeakSettings)
    cpu_percentile: float = 0.95
    memory_percentile: float = 0.98
    keep_snapshots: int = 2


@dataclass(frozen=True, slots=True)
class Restored:
    """What a start found: the position to replay from, and why newer snapshots could not be used."""

    position: int
    series: int
    refused: tuple[str, ...]


class LivingState:
    """One partition. `position` is the last sequence of the stream WINDOWS that is folded; `lock` orders folds and
    snapshots."""

    def __init__(self, store: PredictionStore, policy: PredictionPolicy, partition: int = 0) -> None:
        self.store = store
        self.partition = partition
        self.is_dropped = False
        """Another replica owns the partition: what is here is of the past and must not be written."""
        self.policy = policy
        self.models = PredictionState(policy.model)
        self.position = 0
        self.nodes: dict[str, Resources] = {}
        self.lock = asyncio.Lock()
        self._pending: list[Event[Any]] = []
        self._published: dict[str, int] = {}
        self._pending_until: dict[str, int] = {}
        self._saved_position = 0

    async def restore(self) -> Restored:
        """Take up the newest snapshot that is whole; without one, start from nothing at position 0."""
        refused = []
        self._published = dict(await self.store.published())
        self.nodes = dict(await self.store.nodes())
        for snapshot in await self.store.snapshots(self.partition):
            try:
                self.models = decode(snapshot, self.policy.model)
                self.position = self._saved_position = snapshot.position
                break
            except InvalidInput as error:
                refused.append(error.message)
        return Restored(self.position, len(self.models.rows), tuple(refused))

    def is_published(self, node: str, until_seconds: int) -> bool:
        """Whether the prediction of this window is already in the outbox, or waits for it."""
        return until_seconds <= max(self._published.get(node, 0), self._pending_until.get(node, 0))

    def owe(self, node: str, until_seconds: int, events: Sequence[Event[Any]]) -> None:
        """What is to be published for the window of `node` that ends then."""
        self._pending.extend(events)
        self._pending_until[node] = until_seconds

    async def publish(self) -> None:
        """Publish what is owed. Raises Unavailable; then it is still owed."""
        if self._pending_until:
            await self._commit(None)

    async def snapshot(self) -> bool:
        """Keep the state and publish what is owed, in one transaction; False when nothing changed since the last.

        Folding goes on while the copy is packed: what is owed by then goes into the same transaction.
        """
        async with self.lock:
            if self.position == self._saved_position:
                return False
            frozen = await asyncio.to_thread(freeze, self.models, self.position)
        packed = await asyncio.to_thread(pack, frozen)
        async with self.lock:
            await self._commit(packed)
        return True

    async def _commit(self, snapshot: Snapshot | None) -> None:
        if self.is_dropped:  # asked last: from here to the fence of the transaction nothing is awaited
            raise Fenced(f"partition {self.partition} is owned by another replica: its predictions are not published")
        async with self.store.begin() as transaction:
            for event in self._pending:
                await transaction.publish(event)
            await transaction.set_published(self._pending_until)
            if snapshot is not None:
                await transaction.keep_snapshot(self.partition, snapshot, keep=self.policy.keep_snapshots)
        self._published.update(self._pending_until)
        self._pending.clear()
        self._pending_until.clear()
        if snapshot is not None:
            self._saved_position = snapshot.position
