"""A pod whose limit cannot be read is reported, with the reason; what was decided for it stays."""

from __future__ import annotations

from agent_world import World, throttle
from test_agent_disconnected import records, wanted

from slackwater.agent.domain.knobs import READ_REFUSED, Knob
from slackwater.events import intent_observed
from slackwater.events.measures import PodUsage
from slackwater.events.usage_reported import UsageReported

LIMIT = Knob("a", "cpu_limit")


def reported(world: World, uid: str = "a") -> PodUsage:
    """The pod in the newest report."""
    [one] = [one for one in world.all(UsageReported)[-1].pods if one.pod.uid == uid]
    return one


async def test_an_unread_pod_is_reported_with_its_usage_the_limits_read_last_and_the_reason(world: World) -> None:
    async with world.running():
        await world.declare(throttles=[throttle("a", 400)])
        await world.clock.advance(6)
        world.driver.unread.add(LIMIT)
        await world.clock.advance(5)
        unread, other = reported(world), reported(world, "b")
        assert (unread.unread, unread.cpu_limit_milli, unread.original_cpu_limit_milli) == ("read_refused", 400, None)
        assert (unread.usage.cpu_milli.last, other.unread) == (1000, None)
        world.driver.unread.clear()
        await world.clock.advance(5)
        assert (reported(world).unread, reported(world).cpu_limit_milli) == (None, 400)


async def test_a_pod_that_is_gone_is_not_unread(world: World) -> None:
    async with world.running():
        await world.clock.advance(6)
        world.driver.unread.add(LIMIT)
        world.driver.remove("a")
        await world.clock.advance(5)
        assert {one.pod.uid for one in world.all(UsageReported)[-1].pods} == {"b", "p"}


async def test_an_answer_says_that_a_limit_could_not_be_read_back(world: World) -> None:
    async with world.running():
        await world.declare(throttles=[throttle("a", 400)])
        world.driver.unread.add(LIMIT)
        await world.declare(throttles=[throttle("a", 300)])
        answer = world.all(intent_observed.IntentObserved)[-1]
    assert [(one.pod_uid, one.cpu_limit_milli, one.error) for one in answer.limits] == [("a", None, READ_REFUSED)]
    assert intent_observed.READ_REFUSED == READ_REFUSED


async def test_disconnected_an_unread_pod_keeps_the_limit_it_was_given(world: World) -> None:
    async with world.running():
        await world.declare(**wanted())
        await world.clock.advance(11)
        world.driver.pressure = 0.5
        await world.clock.advance(1.1)
        assert world.driver.limit("a") == "725"
        world.driver.unread.add(LIMIT)
        world.driver.rates |= {"a": 725, "p": 50}
        world.driver.pressure = 0.0
        await world.clock.advance(12)
        assert [one[0] for one in records(world)] == ["throttle"], "no restore of what cannot be read"
        assert world.driver.limit("a") == "725"
        world.driver.unread.clear()
        await world.clock.advance(12)
        assert world.driver.limit("a") == "max"
    assert records(world)[-1] == ("restore", "restore_complete", "agent")


async def test_a_lease_that_runs_out_while_the_pod_is_unread_hands_its_limit_over(world: World) -> None:
    async with world.running():
        await world.declare(**wanted(throttles=[throttle("a", 400)]))
        world.driver.rates = {"a": 400, "b": 500, "p": 3000}
        world.driver.pressure = 0.05
        await world.clock.advance(8)
        world.driver.unread.add(LIMIT)
        await world.clock.advance(5)
        world.driver.unread.clear()
        await world.clock.advance(5)
        assert world.driver.limit("a") == "400"
