"""The agent beside others: foreign writers, a machine that is renamed, pods that nobody may touch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_fakes import FACTS, NODE, pod
from agent_world import World

from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import Tier


@pytest.fixture
def world() -> World:
    found = World()
    found.driver.add(pod("a"), pod("b"), pod("p", Tier.PROD))
    found.driver.rates = {"a": 1000, "b": 500, "p": 250}
    return found


async def test_a_machine_that_is_renamed_keeps_the_name_under_which_it_is_known(world: World) -> None:
    """A host name from DHCP may come late; half a node under another name would be none."""
    async with world.running():
        world.driver.facts_now = replace(FACTS, name="renamed", kernel="6.2")
        await world.clock.advance(40)
        assert {(one.facts.name, one.facts.kernel) for one in world.all(NodeDescribed)} == {
            (NODE, "6.1"),
            (NODE, "6.2"),
        }
        assert {one.node for one in world.all(UsageReported)} == {NODE}
