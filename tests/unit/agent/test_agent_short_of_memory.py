"""A machine short of memory: it is seen between samples, evicted pods get their grace, and a plan that ensurance does
not answer is carried out."""

from __future__ import annotations

from typing import Any

import pytest
from agent_world import World, eviction, throttle
from test_agent_disconnected import records, rules, wanted

from slackwater.decisions.reasons import Mode
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.usage_reported import UsageReported

FULL = {"name": "node_memory_usage_ratio", "value": 0.9}
MEMORY_LINE = [{"metric": "node_memory_usage_ratio", "value": 0.9}]


def evicting(**more: Any) -> dict[str, Any]:
    return wanted(lease_seconds=3600.0, rules=rules("evict", metric=FULL), waterlines=MEMORY_LINE) | more


async def test_where_memory_is_short_an_unanswered_plan_is_carried_out_by_the_next_sample(world: World) -> None:
    async with world.running(report_seconds=1.0):
        await world.declare(**evicting())
        await world.clock.advance(2.1)
        world.driver.memory_bytes = 8 << 30
        world.driver.stubborn.add("a")
        await world.clock.advance(0.8)
        assert world.driver.signals == [], "ensurance may still answer"
        await world.clock.advance(0.2)
        assert [uid for uid, _ in world.driver.signals] == ["a", "b"]
        assert world.driver.samples == [0.0, 1.0, 2.0, 2.5, 3.0]
        world.driver.memory_bytes = 1 << 30
        await world.clock.advance(1.5)
        assert world.all(UsageReported)[-1].alone, "the grace of a is not over"
        await world.clock.advance(3)
        assert not world.all(UsageReported)[-1].alone
        ended = [(one.pod_uid, one.outcome, one.writer) for one in world.all(EvictionCompleted)]
    assert ended == [("b", "terminated", "agent"), ("a", "killed", "agent")]
    assert {one[0] for one in records(world)} == {"evict"}


async def test_where_memory_is_short_an_answer_of_ensurance_is_waited_out(world: World) -> None:
    world.driver.stubborn.update("ab")
    async with world.running():
        await world.declare(**evicting())
        await world.clock.advance(2.1)
        world.driver.memory_bytes = 8 << 30
        await world.clock.advance(0.6)
        items = [eviction(world, "a", "e1", grace=30.0), eviction(world, "b", "e2", grace=30.0)]
        await world.declare(**evicting(evictions=items))
        await world.clock.advance(20)
    assert (len(world.driver.signals), records(world)) == (2, [])


@pytest.mark.parametrize(
    "declared",
    [
        {"rules": ""},
        {"waterlines": []},
        {"rules": rules("evict", Mode.THROTTLE, FULL)},
        {"rules": rules("throttle", metric=FULL)},
    ],
)
async def test_without_a_waterline_or_the_right_to_evict_no_plan_is_made_beside_ensurance(
    world: World, declared: dict[str, Any]
) -> None:
    async with world.running():
        await world.declare(**evicting(**declared))
        world.driver.memory_bytes = 8 << 30
        await world.clock.advance(20)
    assert (world.driver.signals, records(world)) == ([], [])


async def test_memory_that_grows_is_seen_between_samples_also_where_limits_are_in_force(world: World) -> None:
    async with world.running():
        lines = [{"metric": "prod_cpu_pressure", "value": 0.2}, {"metric": "node_memory_usage_ratio", "value": 0.9}]
        await world.declare(waterlines=lines, throttles=[throttle("a", 400, "d7")])
        await world.clock.advance(2.1)
        world.driver.memory_bytes = 8 << 30
        await world.clock.advance(1.9)
        assert world.driver.samples == [0.0, 1.0, 2.0, 2.5, 3.5]


async def test_a_throttled_pod_that_is_evicted_gets_cpu_for_its_checkpoint_at_once(world: World) -> None:
    world.driver.stubborn.add("a")
    async with world.running():
        throttles = [throttle("a", 40), throttle("b", 40)]
        await world.declare(throttles=throttles)
        assert (world.driver.limit("a"), world.driver.limit("b")) == ("40", "40")
        await world.declare(throttles=throttles, evictions=[eviction(world, "a", grace=3.0)])
        assert (world.driver.limit("a"), world.driver.limit("b")) == ("800", "40"), "a fifth of the node"
        await world.clock.advance(2)
        assert world.driver.limit("a") == "800"
