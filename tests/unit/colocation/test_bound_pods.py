"""A pod that is bound to a NUMA zone counts in that zone's offer; one that is not, on all of them."""

from __future__ import annotations

from dataclasses import replace

from colocation_scene import Colocation
from tests.support.windows import window

from slackwater.events.envelope import Event
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.pods import LABEL_NUMA


def bound(event: Event[UsageWindowed], zone: str) -> Event[UsageWindowed]:
    [only] = event.data.pods
    pods = (replace(only, pod=replace(only.pod, labels={LABEL_NUMA: zone})),)
    return event.model_copy(update={"data": event.data.model_copy(update={"pods": pods})})


async def zones(zone: str) -> list[int]:
    world = Colocation()
    await world.describe(zones=2)
    measured = window("n", 1, {"p": 1000})
    await world.take(bound(measured, zone) if zone else measured)
    return [each.batch.cpu_milli for each in world.offers()[-1].zones]


async def test_the_label_of_a_pod_says_which_zone_it_takes_from() -> None:
    spread = await zones("")
    assert spread[0] == spread[1]
    first, second = await zones("node0"), await zones("node1")
    assert first == second[::-1]
    assert first[0] < spread[0] < first[1]


async def test_a_zone_that_the_node_does_not_have_binds_no_pod() -> None:
    assert await zones("node7") == await zones("")


async def test_a_node_without_zones_takes_no_notice() -> None:
    world = Colocation()
    await world.describe()
    await world.take(bound(window("n", 1, {"p": 1000}), "node0"))
    assert world.offers()[-1].zones == ()
    assert world.store.states["n"].pods[0].numa == ()
