"""The end of a stream for some types or one node: with the same words on the real bus and on its twin."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.support.reports import described

from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.quantities import Resources

if TYPE_CHECKING:  # several folders have a conftest
    from conftest import Given


def offered(node: str, generation: int) -> ResourcesOffered:
    return ResourcesOffered(
        node=node,
        offered_at=datetime.now(UTC),
        generation=generation,
        batch=Resources(1000, 2**30),
        degraded=None,
        decision_ids={},
    )


def block(node: str, since: datetime) -> AgentBlockChanged:
    return AgentBlockChanged(node=node, blocked=True, reason="sends poison", changed_by="ada", since=since)


async def test_a_mark_counts_only_its_types_and_is_zero_without_any(given: Given) -> None:
    async with given.process() as bus:
        now = datetime.now(UTC)
        empty = await bus.mark([ResourcesOffered])
        await bus.publish(event_of(described("a", now), source="tests", time=now))
        after_a_node = await bus.mark([ResourcesOffered])
        both = await bus.mark([ResourcesOffered, NodeDescribed])
        await bus.publish(event_of(offered("a", 1), source="tests", time=now))
        await bus.publish(event_of(offered("b.with/odd name", 1), source="tests", time=now))
        after_offers = await bus.mark([ResourcesOffered])

    assert [mark.sequence for mark in (empty, after_a_node, both, after_offers)] == [0, 0, 1, 3]
    assert len({mark.epoch for mark in (empty, after_a_node, both, after_offers)}) == 1


async def test_the_latest_is_the_newest_of_this_node_and_type(given: Given) -> None:
    async with given.process() as bus:
        now = datetime.now(UTC)
        assert await bus.latest(NodeDescribed, "a") is None
        for node in ("a", "a", "b", "b.example.com"):
            await bus.publish(event_of(described(node, now), source="tests", time=now))
        await bus.publish(event_of(offered("a", 1), source="tests", time=now))
        newest = event_of(described("a", now), source="tests", time=now)
        await bus.publish(newest)
        last = await bus.latest(NodeDescribed, "a")
        odd = await bus.latest(NodeDescribed, "b.example.com")
        offer = await bus.latest(ResourcesOffered, "a")

    assert last is not None
    assert last.id == newest.id
    assert odd is not None
    assert odd.data.facts.name == "b.example.com"
    assert offer is not None
    assert offer.data.generation == 1


async def test_the_latest_of_a_blocked_agent_is_hidden_and_its_offer_is_not(given: Given) -> None:
    async with given.process() as bus:
        now = datetime.now(UTC)
        await bus.publish(event_of(described("a", now), source="tests", time=now))
        await bus.publish(event_of(offered("a", 1), source="tests", time=now))
        await bus.publish(event_of(block("a", now), source="tests", time=now))
        while await bus.latest(NodeDescribed, "a") is not None:
            await asyncio.sleep(0.01)
        assert await bus.latest(ResourcesOffered, "a") is not None
