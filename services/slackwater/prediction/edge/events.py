"""The event consumers of prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from slackwater.bus.consume.handlers import Consumer, each
from slackwater.bus.port import Bus, Done, Received, Settlement
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.prediction.usecases.describe_node import describe_node
from slackwater.prediction.usecases.drop_node import drop_node
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.owned_partitions import OwnedPartitions, Reading
from slackwater.prediction.usecases.partition_store import LivingState

ON_DESCRIBED = "prediction-node-described"
ON_DELETED = "prediction-node-deleted"


class WindowsOf:
    """The handler of usage.windowed for one partition. `folded` is called with the number of new windows in each
    batch.
    """

    def __init__(self, living: LivingState, folded: Callable[[int], None]) -> None:
        self._living = living
        self._folded = folded

    async def __call__(self, batch: Sequence[Received[UsageWindowed]]) -> Sequence[Settlement]:
        """Folds a batch in memory. Publishing runs on a timer; after a crash the windows are replayed."""
        pairs = [(received.stream_sequence, received.event) for received in batch]
        self._folded(await fold_windows(self._living, pairs))
        return [Done()] * len(batch)


def windows_reader(bus: Bus, folded: Callable[[int], None]) -> Reading:
    """Returns a reader of a partition's windows that starts at the position of its state."""

    def reading(living: LivingState) -> AbstractAsyncContextManager[None]:
        handler = WindowsOf(living, folded)
        return bus.replay(UsageWindowed, handler, after_sequence=living.position, partition=living.partition)

    return reading


def consumers(shares: OwnedPartitions) -> Sequence[Consumer[Any]]:
    """Returns the consumers besides the windows, which each partition replays for itself."""

    async def on_described(received: Received[NodeDescribed]) -> None:
        described = received.event.data
        await describe_node(shares.of(described.facts.name), described)

    async def on_deleted(received: Received[NodeDeleted]) -> None:
        deleted = received.event.data
        await drop_node(shares.of(deleted.node), deleted)

    return (
        Consumer(NodeDescribed, ON_DESCRIBED, each(on_described)),
        Consumer(NodeDeleted, ON_DELETED, each(on_deleted)),
    )
