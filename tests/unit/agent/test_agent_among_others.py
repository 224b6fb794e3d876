"""The agent beside others: foreign writers, a machine that is renamed, pods that nobody may touch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_fakes import FACTS, NODE, pod
from agent_world import World, throttle

from slackwater.agent.domain.knobs import Knob
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import Tier


@pytest.fixture
def world() -> World:
    found = World()
    found.driver.add(pod("a"), pod("b"), pod("p", Tier.PROD))
    found.driver.rates = {"a": 1000, "b": 500, "p": 250}
    return found


async def test_a_foreign_writer_of_a_pod_that_has_ended_is_named_no_more(world: World) -> None:
    async with world.running() as service:
        await world.declare(throttles=[throttle("a", 400)])
        world.driver.knobs[Knob("a", "cpu_limit")] = "777"
        await world.clock.advance(1.5)
        assert world.all(IntentObserved)[-1].foreign_writers == ("a",)
        world.driver.remove("a")
        await world.clock.advance(1)
        await world.declare(throttles=[throttle("b", 400)])
        assert world.all(IntentObserved)[-1].foreign_writers == ()
        assert service._running is not None
        assert service._running.converge._foreign == {}


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
