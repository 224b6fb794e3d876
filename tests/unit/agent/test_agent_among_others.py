"""The agent beside others: foreign writers, a machine that is renamed, protected pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_fakes import FACTS, NODE, pod
from agent_world import World, eviction, throttle

from slackwater.agent.domain.knobs import Knob
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.pods import Pod
from slackwater.model.tiers import QoSClass, Tier


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
        assert service._running.converge._apply.foreign == {}


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


UNTOUCHABLE = [
    replace(pod("x", Tier.PROD, qos=QoSClass.SYSTEM)),
    replace(pod("x"), namespace="kube-system"),
    replace(pod("x"), namespace="slackwater-system"),
    replace(pod("x"), priority=2_000_000_000),
    replace(pod("x"), labels={"slackwater.io/protected": "agent"}),
    replace(pod("x"), labels={"kubernetes.io/config.source": "file"}),
]


@pytest.mark.parametrize("one", UNTOUCHABLE, ids=["class", "kube", "slackwater", "priority", "agent", "static"])
async def test_whatever_is_asked_the_system_is_neither_throttled_nor_ended(world: World, one: Pod) -> None:
    world.driver.add(one)
    async with world.running() as service:
        await world.declare(throttles=[throttle("x", 100), throttle("a", 400)], evictions=[eviction(world, "x")])
        await world.clock.advance(10)
        assert (world.driver.limit("x"), world.driver.limit("a")) == ("max", "400")
        assert world.driver.signals == []
        assert [(done.pod_uid, done.outcome) for done in world.all(EvictionCompleted)] == [("x", "refused")]
        told = {one.pod_uid: one.error for one in world.all(IntentObserved)[0].limits}
        assert told == {"a": None, "x": "protected"}
    assert service.restored_exactly
