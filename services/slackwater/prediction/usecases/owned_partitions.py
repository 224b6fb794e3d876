"""The partitions of this replica: each has its own state, restored when acquired and saved when released."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from slackwater.model.errors import Fenced, SlackwaterError
from slackwater.model.identifiers import partition_of
from slackwater.prediction.domain.policy import PoolPolicies
from slackwater.prediction.ports import PredictionStore
from slackwater.prediction.usecases.partition_store import LivingState, PredictionPolicy, Restored
from slackwater.store.quarantine import Item, Quarantine
from slackwater.store.quarantine_memory import unstored

Reading = Callable[[LivingState], AbstractAsyncContextManager[object]]
"""Folds everything after a state's position, for as long as it is open."""


class OwnedPartitions:
    """The states of the owned partitions. A new owner continues exactly at the last snapshot of a partition."""

    def __init__(
        self,
        store: PredictionStore,
        policy: PredictionPolicy,
        reading: Reading,
        restored: Callable[[Restored], None],
        failed: Callable[[SlackwaterError], None],
        quarantine: Quarantine | None = None,
    ) -> None:
        self._quarantine = quarantine or unstored()
        self._store = store
        self._policy = policy
        self._reading = reading
        self._restored = restored
        self._failed = failed
        self._policies = policy.policies
        self._living: dict[int, LivingState] = {}
        self._readers: dict[int, AsyncExitStack] = {}

    def __iter__(self) -> Iterator[LivingState]:
        return iter(list(self._living.values()))

    def of(self, node: str) -> LivingState:
        """Returns the state of a node's partition. Raises Fenced if another replica owns it."""
        living = self._living.get(partition_of(node))
        if living is None:
            raise Fenced(f"node {node} is in partition {partition_of(node)}, which another replica owns")
        return living

    @property
    def series(self) -> int:
        return sum(living.models.series for living in self)

    @property
    def problems(self) -> dict[str, str]:
        """Returns the models that lend nothing, with the reason; equal entries of several partitions appear once."""
        return {place: why for living in self for place, why in living.models.problems.items()}

    async def follow(self, policies: PoolPolicies) -> Sequence[str]:
        """Applies these policies from now on, also to partitions acquired later. Returns the models that start empty.

        Raises InvalidInput for an unknown model.
        """
        self._policies = policies
        return [f"partition {living.partition}: {place}" for living in self for place in await living.follow(policies)]

    async def acquire(self, partitions: Collection[int]) -> None:
        """Restores partitions and starts their readers. Raises Unavailable."""
        for partition in sorted(partitions):
            living = LivingState(self._store, self._policy, partition, self._policies, self._quarantine)
            self._restored(await living.restore())
            self._living[partition] = living
            stack = AsyncExitStack()
            await stack.enter_async_context(self._reading(living))
            if living.is_dropped:  # lost while its reader was being opened
                await stack.aclose()
            else:
                self._readers[partition] = stack

    async def release(self, partitions: Collection[int]) -> None:
        """Stops the readers, then saves snapshots, so that the next owner replays nothing."""
        for partition in sorted(partitions):
            stack = self._readers.pop(partition, None)
            if stack is not None:
                await stack.aclose()
            await self.keep([living for living in self if living.partition == partition])

    async def keep(self, states: Sequence[LivingState]) -> int:
        """Saves a snapshot of each state that has changed; returns the number saved. A failure makes the next replay
        longer.
        """
        count = 0
        for living in states:
            with self._quarantine.isolating("snapshots", str(living.partition)):
                try:
                    count += await living.snapshot()
                except SlackwaterError as error:
                    self._failed(error)
        return count

    async def retry(self, item: Item) -> None:
        """Reads again what an operator released. A snapshot is tried at the next restore. Raises Unavailable."""
        for living in self:
            if item.table != "snapshots" and (not item.node or partition_of(item.node) == living.partition):
                await living.read_nodes()
                living.check_again()

    def drop(self, partitions: Collection[int]) -> Sequence[AsyncExitStack]:
        """Drops the states; returns the readers that must still be closed."""
        for partition in partitions:
            living = self._living.pop(partition, None)
            if living is not None:
                living.is_dropped = True
        return [stack for partition in partitions if (stack := self._readers.pop(partition, None)) is not None]
