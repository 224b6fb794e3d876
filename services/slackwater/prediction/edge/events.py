"""From deliveries to use cases, and back to settlements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from slackwater.bus.handlers import Consumer, each
from slackwater.bus.port import Bus, Done, Received, Settlement
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.prediction.usecases.describe_node import describe_node
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.shares import Reading, Shares
from slackwater.prediction.usecases.state import LivingState

ON_DESCRIBED = "prediction-node-described"


class WindowsOf:
    """The handler of usage.windowed for one partition; `folded` is told how many windows were new in each batch."""

    def __init__(self, living: LivingState, folded: Callable[[int], None]) -> None:
        self._living = living
        self._folded = folded

    async def __call__(self, batch: Sequence[Received[UsageWindowed]]) -> Sequence[Settlement]:
        """Only memory changes: what follows is published on a clock, what is lost with the process is read again."""
        pairs = [(received.stream_sequence, received.event) for received in batch]
        self._folded(await fold_windows(self._living, pairs))
        return [Done()] * len(batch)


def windows_reader(bus: Bus, folded: Callable[[int], None]) -> Reading:
    """Reads the windows of a partition from where its state stands."""

    def reading(living: LivingState) -> AbstractAsyncContextManager[None]:
        handler = WindowsOf(living, folded)
        return bus.replay(UsageWindowed, handler, after_sequence=living.position, partition=living.partition)

    return reading


def consumers(shares: Shares) -> Sequence[Consumer[Any]]:
    """What prediction consumes beside the windows, which each partition replays for itself."""

    async def on_described(received: Received[NodeDescribed]) -> None:
        described = received.event.data
        await describe_node(shares.of(described.facts.name), described)

    return (Consumer(NodeDescribed, ON_DESCRIBED, each(on_described)),)
