"""The in-memory state of a partition and its persistence: snapshot with position, restore, exactly-once publishing.

Folding changes memory only. A prediction goes into the outbox in one transaction with the row that records it, so that
neither a restart nor a change of owner repeats it. After a crash the windows since the newest valid snapshot are folded
again, and a node is published only after its folded windows have passed the last published one.
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
from slackwater.prediction.domain.policy import PoolPolicies
from slackwater.prediction.domain.snapshot import Snapshot, decode, freeze, pack
from slackwater.prediction.domain.state import DEFAULT_POOL, Keeping, MakeModel, PartitionState
from slackwater.prediction.ports import DescribedNode, PredictionStore, PredictionTransaction
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored


@record(frozen=True, slots=True)
class PredictionPolicy:
    """Default policies, and how long data is kept."""

    make: MakeModel
    policies: PoolPolicies = field(default_factory=PoolPolicies)
    keeping: Keeping = field(default_factory=Keeping)
    keep_snapshots: int = 2


@record(frozen=True, slots=True)
class Restored:
    """Result of a restore: the position to replay from, why newer snapshots could not be used, and which models start
    empty because they cannot restore their history.
    """

    position: int
    series: int
    refused: tuple[str, ...]
    anew: tuple[str, ...] = ()


@record(frozen=True, slots=True)
class PoolCheck:
    """The last check of a pool: when it was due (monotonic seconds), the number of folds by then, and from when on
    (seconds since 1970) a node is due without further folds.
    """

    at: float
    folds: int
    due_at: float


class LivingState:
    """One partition. `position` is the last folded sequence of the stream WINDOWS; `lock` orders folds, predictions and
    snapshots.
    """

    def __init__(
        self,
        store: PredictionStore,
        policy: PredictionPolicy,
        partition: int = 0,
        policies: PoolPolicies | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self.store = store
        self.quarantine = quarantine or unstored()
        self.partition = partition
        self.is_dropped = False
        """Another replica owns the partition: this state is outdated and must not be written."""
        self.policy = policy
        self.policies = policies or policy.policies
        self.models = self._empty()
        self.position = 0
        self.nodes: dict[str, DescribedNode] = {}
        self.published: dict[str, Published] = {}
        self.lock = asyncio.Lock()
        self.looking = asyncio.Lock()
        self.looked: dict[str, PoolCheck] = {}
        """The last check by pool; see publish_predictions."""
        self._saved_position = 0

    def _empty(self) -> PartitionState:
        return PartitionState(self.policies, self.policy.make, self.policy.keeping)

    async def restore(self) -> Restored:
        """Restores the newest valid snapshot; without one, starts empty at position 0."""
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
        """Reads the stored rows of nodes besides the snapshot. Raises Unavailable."""
        self.published = dict(await self.store.published())
        self.nodes = dict(await self.store.nodes())

    def _note_snapshot(self, snapshot: Snapshot, why: str) -> None:
        """Sets an invalid snapshot aside. Its unit is the partition, because series share matrices. An older snapshot
        and a replay of WINDOWS replace it.
        """
        about = f"version {snapshot.version}, {len(snapshot.body)} bytes, checksum {snapshot.checksum}"
        row, unreadable = f"{self.partition}@{snapshot.position}", QuarantineReason.UNREADABLE
        self.quarantine.note("snapshots", row, why, reason=unreadable, document=about)

    async def follow(self, policies: PoolPolicies) -> Sequence[str]:
        """Applies these policies from now on. Returns the models that start empty. Raises InvalidInput for an unknown
        model.
        """
        async with self.lock:
            self.policies = policies
            self.check_again()
            return self.models.follow(policies)

    def check_again(self) -> None:
        """Marks every pool for the next check, after a change other than a fold."""
        self.looked.clear()

    def pool_of(self, node: str) -> str:
        described = self.nodes.get(node)
        return DEFAULT_POOL if described is None else described.pool

    async def publish(self, events: Sequence[Event[Any]], nodes: Mapping[str, Published]) -> None:
        """Publishes events in one transaction. Raises Unavailable, Fenced; nothing is then published."""
        async with self._begun() as transaction:
            for event in events:
                await transaction.publish(event)
            await transaction.set_published(nodes)
        self.published.update(nodes)

    async def snapshot(self) -> bool:
        """Saves the state. Returns False if it has not changed since the last snapshot. Folding continues while the
        copy is packed.
        """
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
        """Begins a transaction if the partition is still owned. No await separates this check from the fence."""
        if self.is_dropped:
            raise Fenced(f"partition {self.partition} is owned by another replica; nothing is written")
        return self.store.begin()
