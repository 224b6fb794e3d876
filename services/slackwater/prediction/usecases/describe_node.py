"""node.described: remember what is allocatable, which bounds what prod may lend."""

from __future__ import annotations

from slackwater.events.node_described import NodeDescribed
from slackwater.prediction.usecases.state import LivingState


async def describe_node(living: LivingState, described: NodeDescribed) -> None:
    """Capacity minus what the operator keeps back. Delivering it twice changes nothing. Raises Unavailable, Fenced."""
    facts = described.facts
    allocatable = (facts.capacity - facts.reserved).at_least_zero()
    async with living.store.begin() as transaction:
        await transaction.describe(facts.name, allocatable, described.described_at)
    living.nodes = dict(await living.store.nodes())
