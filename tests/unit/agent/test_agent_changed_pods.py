"""A change of the pods of a node is reported with the sample that shows it, and its roster before that."""

from __future__ import annotations

from dataclasses import replace

from agent_fakes import pod
from agent_world import World

from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import Tier


def machine() -> World:
    world = World()
    world.driver.add(pod("a"), pod("p", Tier.PROD))
    world.driver.rates = {"a": 1000, "p": 250}
    return world


def reported(world: World) -> list[tuple[float, str, list[str]]]:
    return [
        (report.window_seconds, report.trigger, [usage.pod.uid for usage in report.pods])
        for report in world.all(UsageReported)
    ]


async def test_a_pod_that_ends_is_reported_with_the_next_sample() -> None:
    world = machine()
    async with world.running():
        await world.clock.advance(6.5)
        world.driver.remove("a")
        await world.clock.advance(1)
    assert reported(world)[:2] == [(5.0, "interval", ["a", "p"]), (2.0, "pods", ["p"])]


async def test_a_pod_that_comes_is_reported_with_its_first_sample() -> None:
    world = machine()
    async with world.running():
        await world.clock.advance(5.5)
        world.driver.add(pod("b"))
        world.driver.rates["b"] = 100
        await world.clock.advance(1)
    assert reported(world)[1] == (1.0, "pods", ["a", "p", "b"])


async def test_a_pod_that_is_described_otherwise_is_reported_and_usage_alone_is_not() -> None:
    world = machine()
    async with world.running():
        await world.clock.advance(5.5)
        world.driver.rates["a"] = 10
        await world.clock.advance(1)
        assert len(reported(world)) == 1
        world.driver.add(replace(pod("a"), labels={"team": "x"}))
        await world.clock.advance(1)
        assert [trigger for _, trigger, _ in reported(world)] == ["interval", "pods"]
        await world.clock.advance(4)
        assert len(reported(world)) == 2, "the interval begins anew with it"
