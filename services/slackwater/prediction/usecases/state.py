"""The living state of prediction, and how it survives: snapshot with position, restore, publish exactly once.

Folding changes memory only. A prediction goes into the outbox in one transaction with what was published, so that
neither a restart nor a hand-over repeats it. After a crash the windows since the newest valid snapshot are taken again,
and nothing is published of a node until it is as far as what had been published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Any

from slackwater.events.envelope import Event
from slackwater.events.state_quarantined import QuarantineReason
from slackwater.model.errors import Fenced, InvalidInput
from slackwater.model.records import record
from slackwater.prediction.domain.cadence import Published
from slackwater.prediction.domain.policy import Policies
from slackwater.prediction.domain.snapshot import Snapshot, decode, freeze, pack
from slackwater.prediction.domain.state import DEFAULT_POOL, Keeping, MakeModel, PartitionState
from slackwater.prediction.ports import Described, PredictionStore, PredictionTransaction
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored


@record(frozen=True, slots=True)
class PredictionPolicy:
    """How predictions are made where no other policies are handed over, and how long what is kept."""

    make: MakeModel
    policies: Policies = field(default_factory=Policies)
    keeping: Keeping = field(default_factory=Keeping)
    keep_snapshots: int = 2


@record(frozen=True, slots=True)
class Restored:
    """What a start found: the position to replay from, why newer snapshots could not be used, and which models begin
    anew because those in force cannot take their history."""

    position: int
    series: int
    refused: tuple[str, ...]
    anew: tuple[str, ...] = ()


@record(frozen=True, slots=True)
class Look:
    """When the last look at a pool was due (monotonic seconds), how often it had been folded by then, and from when on
    (seconds since 1970) something is due even if nothing is folded."""

    at: float
    folds: int
    due_at: float


class LivingState:
    """One partition. `position` is the last sequence of the stream WINDOWS that is folded; `lock` orders folds,
    predictions and snapshots."""

    def __init__(
        self,
        store: PredictionStore,
        policy: PredictionPolicy,
        partition: int = 0,
        policies: Policies | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.store = store
        self.quarantine = quarantine or unstored()
        self.partition = partition
        self.is_dropped = False
        """Another replica owns the partition: what is here is of the past and must not be written."""
        self.policy = policy
        self.policies = policies or policy.policies
        self.models = self._empty()
        self.position = 0
        self.nodes: dict[str, Described] = {}
        self.published: dict[str, Published] = {}
        self.lock = asyncio.Lock()
        self.looking = asyncio.Lock()
        self.looked: dict[str, Look] = {}
        """By pool; see publish_predictions."""
        self._saved_position = 0

    def _empty(self) -> PartitionState:
        return PartitionState(self.policies, self.policy.make, self.policy.keeping)

    async def restore(self) -> Restored:
        """Take up the newest snapshot that is whole; without one, start from nothing at position 0."""
        refused: list[str] = []
        anew: list[str] = []
        await self.read_nodes()
        for snapshot in await self.store.snapshots(self.partition):
            try:
                self.models, anew = decode(snapshot, self.policies, self.policy.make, self.policy.keeping)
                self.position = self._saved_position = snapshot.position
                break
            except InvalidInput as error:
                refused.append(error.message)
                self._note_snapshot(snapshot, error.message)
        return Restored(self.position, self.models.series, tuple(refused), tuple(anew))

    async def read_nodes(self) -> None:
        """What is stored of nodes beside the snapshot. Raises Unavailable."""
        self.published = dict(await self.store.published())
        self.nodes = dict(await self.store.nodes())

    def _note_snapshot(self, snapshot: Snapshot, why: str) -> None:
        """Its unit is the partition: series share matrices. An older snapshot and a replay of WINDOWS stand in."""
        about = f"version {snapshot.version}, {len(snapshot.body)} bytes, checksum {snapshot.checksum}"
        row, unreadable = f"{self.partition}@{snapshot.position}", QuarantineReason.UNREADABLE
        self.quarantine.note("snapshots", row, why, reason=unreadable, document=about)

    async def follow(self, policies: Policies) -> Sequence[str]:
        """From now on by these. Returns which models begin anew. Raises InvalidInput if there is no such model."""
        async with self.lock:
            self.policies = policies
            self.look_again()
            return self.models.follow(policies)

    def look_again(self) -> None:
        """Something else than a fold has changed: every pool is looked at in the next check."""
        self.looked.clear()

    def pool_of(self, node: str) -> str:
        known = self.nodes.get(node)
        return DEFAULT_POOL if known is None else known.pool

    async def publish(self, events: Sequence[Event[Any]], nodes: Mapping[str, Published]) -> None:
        """In one transaction. Raises Unavailable, Fenced; then nothing of it is published."""
        async with self._begun() as transaction:
            for event in events:
                await transaction.publish(event)
            await transaction.set_published(nodes)
        self.published.update(nodes)

    async def snapshot(self) -> bool:
        """Keep the state; False when nothing changed since the last. Folding goes on while the copy is packed."""
        async with self.lock:
            if self.position == self._saved_position:
                return False
            frozen = await asyncio.to_thread(freeze, self.models, self.position)
        packed = await asyncio.to_thread(pack, frozen)
        await self._keep(packed)
        return True

    async def _keep(self, snapshot: Snapshot) -> None:
        async with self._begun() as transaction:
            await transaction.keep_snapshot(self.partition, snapshot, keep=self.policy.keep_snapshots)
        self._saved_position = max(self._saved_position, snapshot.position)

    def _begun(self) -> AbstractAsyncContextManager[PredictionTransaction]:
        """A transaction, unless we are not the owner any more: from here to its fence nothing is awaited."""
        if self.is_dropped:
            raise Fenced(f"partition {self.partition} is owned by another replica: nothing of it is written here")
        return self.store.begin()
