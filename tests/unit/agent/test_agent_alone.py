"""Cut off for longer than the lease: the same planner on the last rules; one owner again when he is back."""

from __future__ import annotations

from typing import Any

import pytest
from agent_fakes import NODE, pod
from agent_world import World, throttle

from slackwater.decisions.reasons import Mode
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.model.tiers import Tier
from slackwater.waterline import handover
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.podqos import PodQos
from slackwater.waterline.rulebook import Documents, rulebook_of

PRESSURE = {"name": "prod_cpu_pressure", "value": 0.1}
BE = {"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}


def rules(action: str = "throttle", mode: Mode = Mode.EVICT) -> str:
    """What ensurance leaves with an agent."""
    rule = {"name": "prod-cpu", "metricRule": PRESSURE, "actionName": action}
    cluster = NodeQos.parse({"metadata": {"name": "default"}, "spec": {"rules": [rule]}})
    others = Documents(
        pods=(
            PodQos.parse(
                {
                    "metadata": {"name": "default"},
                    "spec": {"scopeSelector": {"matchExpressions": [BE]}, "allowedActions": ["throttle", "evict"]},
                }
            ),
        ),
        actions=(
            AvoidanceAction.parse(
                {"metadata": {"name": "evict"}, "spec": {"eviction": {"terminationGracePeriodSeconds": 2}}}
            ),
        ),
    )
    book = rulebook_of(cluster, others)
    return handover.written(book.policies, book.options(mode))


@pytest.fixture
def world() -> World:
    found = World()
    found.driver.add(pod("a"), pod("b"), pod("p", Tier.PROD))
    found.driver.rates = {"a": 1000, "b": 500, "p": 250}
    return found


def records(world: World) -> list[tuple[str, str, str]]:
    return [(one.record.kind, one.record.reason, one.record.service) for one in world.all(DecisionRecorded)]


def wanted(**more: Any) -> dict[str, Any]:
    return {"lease_seconds": 10.0, "rules": rules()} | more


async def test_while_the_lease_lives_it_decides_nothing(world: World) -> None:
    async with world.running():
        await world.declare(**wanted())
        world.driver.pressure = 0.5
        await world.clock.advance(9)
        assert (world.driver.limit("a"), records(world)) == ("max", [])


async def test_alone_it_throttles_and_gives_back_by_the_same_rules_and_tells_afterwards(world: World) -> None:
    async with world.running():
        await world.declare(**wanted())
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(1.1)
        assert world.driver.limit("a") == "725"  # 250 x 0.5 / 0.5 x 1.1 = 275
        world.driver.rates |= {"a": 725}
        world.driver.pressure = 0.0
        world.driver.rates |= {"p": 50}
        await world.clock.advance(12)
        assert world.driver.limit("a") == "max"
        told = world.events(DecisionRecorded)
    assert records(world)[0] == ("throttle", "throttle_waterline_crossed", "agent")
    assert records(world)[-1] == ("restore", "restore_complete", "agent")
    intent = next(event for event in world.bus.published if event.data.TYPE == "intent.declared")
    assert told[0].causedby == intent.id


async def test_what_was_in_force_stays_while_it_is_needed_instead_of_fading(world: World) -> None:
    async with world.running():
        await world.declare(**wanted(throttles=[throttle("a", 400)]))
        world.driver.rates = {"a": 400, "b": 500, "p": 3000}  # no CPU is idle, and prod still wants what it wanted
        world.driver.pressure = 0.05
        await world.clock.advance(25)
        assert world.driver.limit("a") == "400"
        world.driver.rates |= {"b": 0, "p": 2500}
        await world.clock.advance(1)
        assert int(world.driver.limit("a")) == 400 + 1100 - 200, "what is idle goes back but for a margin"


async def test_without_rules_a_lapsed_lease_lets_go_as_before(world: World) -> None:
    async with world.running():
        await world.declare(**wanted(throttles=[throttle("a", 400)], rules=""))
        world.driver.pressure = 0.5
        await world.clock.advance(16)
        assert (world.driver.limit("a"), records(world)) == ("max", [])


async def test_rules_that_cannot_be_read_are_no_rules(world: World) -> None:
    async with world.running():
        await world.declare(**wanted(throttles=[throttle("a", 400)], rules='{"policies": 7, "options": {}}'))
        world.driver.pressure = 0.5
        await world.clock.advance(16)
        assert (world.driver.limit("a"), records(world)) == ("max", [])


async def test_when_the_owner_is_back_his_word_counts_and_ours_fades(world: World) -> None:
    async with world.running():
        await world.declare(**wanted())
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(1.1)
        assert world.driver.limit("a") == "725"
        made = len(records(world))
        world.generation -= 1  # a renewal of what he wanted before
        await world.declare(**wanted(throttles=[throttle("b", 100)], lease_seconds=3600.0))
        assert world.driver.limit("b") == "100"
        await world.clock.advance(8)
        assert world.driver.limit("a") == "max"
        assert len(records(world)) == made, "one owner: it decides nothing any more"


async def test_the_last_document_handed_out_again_is_no_owner(world: World) -> None:
    """The broker repeats it when the line is back, before ensurance has said anything."""
    async with world.running() as service:
        last = await world.declare(**wanted())
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(1.1)
        running = service._running
        assert running is not None
        await running.receive(last)
        world.driver.pressure = 0.0
        world.driver.rates |= {"p": 50}
        await world.clock.advance(8)
        assert records(world)[-1][1] == "restore_complete"


async def test_alone_it_evicts_where_the_rules_say_so_once_and_only_the_protected_stay(world: World) -> None:
    world.driver.guarded.update(a="it is the agent")
    async with world.running():
        await world.declare(**wanted(rules=rules("evict")))
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(6)
        world.driver.pressure = 0.0
        await world.clock.advance(3)
        ended = [(one.pod_uid, one.outcome, one.writer) for one in world.all(EvictionCompleted)]
    assert ended == [("a", "refused", "agent"), ("b", "terminated", "agent")]


async def test_a_mode_without_evictions_only_tells(world: World) -> None:
    async with world.running():
        await world.declare(**wanted(rules=rules("evict", Mode.THROTTLE)))
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(6)
        assert world.all(EvictionCompleted) == []
        assert records(world) == [("evict", "evict_observed_only", "agent")]


def test_rules_travel_without_loss() -> None:
    text = rules()
    policies, options = handover.read(text)
    assert handover.written(policies, options) == text
    assert len(text) < 2000
    assert NODE
