"""Handles node.described: stores the node's allocatable resources, which bound what prod may lend, and its pool."""

from __future__ import annotations

from slackwater.events.node_described import NodeDescribed
from slackwater.prediction.ports import DescribedNode
from slackwater.prediction.usecases.partition_store import LivingState


async def describe_node(living: LivingState, described: NodeDescribed) -> None:
    """Stores capacity minus reservations. Idempotent. Raises Unavailable, Fenced."""
    facts = described.facts
    known = DescribedNode((facts.capacity - facts.reserved).at_least_zero(), facts.pool)
    async with living.store.begin() as transaction:
        newest = await transaction.describe(facts.name, known, described.described_at)
    if newest and living.nodes.get(facts.name) != known:
        living.nodes[facts.name] = known
        living.check_again()
