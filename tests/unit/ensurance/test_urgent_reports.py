"""Urgent reports reach ensurance by two ways: one answer to each, in whatever order, number and process they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from ensurance_scene import Scene, described, reported
from hypothesis import given, settings
from hypothesis import strategies as st
from test_histories import in_a_loop
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus

from slackwater.ensurance.edge.events import consumers
from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed, crossing_of, report_of
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of

IGNORED = "slackwater_ensurance_reports_ignored_total"


def urgent(sequence: int, scene: Scene, *, pressure: float = 0.3, **more: str) -> Event[UsageReported]:
    event = reported(sequence, at=scene.clock.now(), pressure=pressure, **more)  # type: ignore[arg-type]
    return event.model_copy(update={"data": event.data.model_copy(update={"trigger": "waterline"})})


def crossing(report: Event[UsageReported]) -> Event[WaterlineCrossed]:
    found = crossing_of(report)
    assert found is not None
    return found


def triggers(scene: Scene) -> list[str | None]:
    return [record.trigger_event_id for record in scene.records()]


def test_only_an_urgent_report_is_published_twice_and_nothing_of_it_is_lost() -> None:
    calm = reported(1, at=Scene().clock.now(), pressure=0.3)
    assert crossing_of(calm) is None
    report = urgent(1, Scene()).model_copy(update={"causedby": "c", "traceparent": "t"})
    told = crossing(report)
    assert (told.id, told.type, told.data.key()) == (report.id, "io.slackwater.waterline.crossed.v1", "n1")
    assert type(told.data) is WaterlineCrossed
    assert report_of(told) == report
    assert type(report_of(told).data) is UsageReported


async def test_whichever_way_is_first_the_other_changes_nothing() -> None:
    scene = await Scene().open()
    report = urgent(1, scene)
    await scene.guard(report_of(crossing(report)))
    assert triggers(scene) == [report.id]
    before = len(scene.database.published)
    await scene.guard(report)
    await scene.guard(report_of(crossing(report)))
    assert len(scene.database.published) == before
    assert scene.metric(IGNORED, reason="known") == 2
    assert scene.metric("slackwater_ensurance_decisions_total", kind="throttle", reason=scene.records()[0].reason) == 1


async def test_calm_reports_that_an_urgent_one_has_overtaken_take_nothing_back() -> None:
    scene = await Scene().open()
    await scene.clock.advance(1)
    await scene.guard(report_of(crossing(urgent(5, scene, pressure=0.6))))
    limits = scene.limits()
    for sequence in (3, 4):
        await scene.guard(reported(sequence, at=scene.clock.now(), pressure=0.0))
    assert scene.limits() == limits
    assert scene.metric(IGNORED, reason="replayed") == 2


async def test_after_a_restart_the_other_way_of_what_was_answered_is_known() -> None:
    scene = await Scene().open()
    report = urgent(1, scene)
    await scene.guard(report_of(crossing(report)))
    scene.start()
    await scene.open()
    await scene.guard(report)
    assert triggers(scene) == [report.id]
    assert scene.metric(IGNORED, reason="known") == 1


async def test_reports_of_a_restarted_agent_count_by_both_ways_and_older_ones_do_not() -> None:
    scene = await Scene().open()
    old = urgent(9, scene)
    await scene.guard(report_of(crossing(old)))
    await scene.confirm()
    await scene.clock.advance(4)
    young = urgent(1, scene, pressure=0.6, boot_epoch="boot-2")
    await scene.guard(report_of(crossing(young)))
    assert triggers(scene) == [old.id, young.id]
    await scene.guard(young)
    await scene.guard(old)
    assert triggers(scene) == [old.id, young.id]


Delivery = tuple[int, bool]
"""Which report, and whether by its urgent way."""


@given(st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=40), st.sets(st.integers(0, 39), max_size=4))
@settings(max_examples=100, deadline=None)
def test_in_any_order_each_report_acts_once_at_most_and_never_after_a_newer_one(
    deliveries: list[Delivery], restarts: set[int]
) -> None:
    async def lived() -> Scene:
        scene = await Scene().open()
        reports = []
        for number in range(8):
            await scene.clock.advance(1)
            reports.append(urgent(number + 1, scene, pressure=0.9 if number % 2 else 0.3))
        order = {report.id: number for number, report in enumerate(reports)}
        newest = -1
        for step, (number, by_urgent) in enumerate(deliveries):
            if step in restarts:
                scene.start()
                await scene.open()
            before = triggers(scene)
            await scene.guard(report_of(crossing(reports[number])) if by_urgent else reports[number])
            if acted := triggers(scene)[len(before) :]:
                assert [order[str(one)] for one in acted] == [number]
                assert number > newest
                newest = number
        return scene

    found = triggers(in_a_loop(lived()))
    assert len(found) == len(set(found))


@dataclass
class Replica:
    """One process of two: its own nodes in memory, the same store and broker."""

    scene: Scene
    mine: set[int]
    bus: MemoryBus

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Replica]:
        await self.scene.cache.load(self.mine)
        async with AsyncExitStack() as stack:
            scene = self.scene
            handlers = scene.guard, scene.describe, scene.observe, scene.evicted, scene.delete
            for consumer in consumers(scene.cache, *handlers, scene.reclaims, scene.requested):
                opened = await stack.enter_async_context(consumer.open(self.bus, self.mine.__contains__))
                await opened.acquire(self.mine)
            yield self


async def told_both_ways(broker: MemoryBroker, reports: Sequence[Event[UsageReported]], *, urgent_first: bool) -> None:
    bus = MemoryBus(broker)
    for report in reports:
        pair = [crossing(report), report]
        for event in pair if urgent_first else reversed(pair):
            await bus.publish(event)
            await settled()


async def settled() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


async def test_of_two_replicas_the_owner_of_the_node_answers_once() -> None:
    first = Scene()
    second = Scene(clock=first.clock, database=first.database)
    second.store = first.store
    second.start()
    broker = MemoryBroker(clock=first.clock)
    names = [f"n{number}" for number in range(12)]
    halves = set(list(ALL_PARTITIONS)[::2]), set(list(ALL_PARTITIONS)[1::2])
    replicas = [
        Replica(scene, half, MemoryBus(broker, clock=first.clock, name=f"r{number}"))
        for number, (scene, half) in enumerate(zip((first, second), halves, strict=True))
    ]
    async with replicas[0].running(), replicas[1].running():
        for name in names:
            await MemoryBus(broker).publish(described(name, at=first.clock.now()))
        await settled()
        for urgent_first in (True, False):
            own = names[::2] if urgent_first else names[1::2]
            reports = [urgent(1, first, node=name) for name in own]
            await told_both_ways(broker, reports, urgent_first=urgent_first)
    assert {partition_of(name) % 2 for name in names} == {0, 1}  # both have some
    assert sorted(record.node for record in first.records()) == sorted(names)
    seen = [scene.metric(IGNORED, reason="known") or 0 for scene in (first, second)]
    assert sum(seen) == len(names)
    assert all(seen)
