"""The consumers of tally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.bus.consume.handlers import Consumer, each
from slackwater.bus.port import Received
from slackwater.events.node_described import NodeDescribed
from slackwater.tally.usecases.count_nodes import CountNodes


def consumers(count: CountNodes) -> Sequence[Consumer[Any]]:
    """As contracts/streams.yaml names them."""

    async def on_described(received: Received[NodeDescribed]) -> None:
        await count.describe(received.event)

    return (Consumer(NodeDescribed, "tally-node-described", each(on_described)),)
