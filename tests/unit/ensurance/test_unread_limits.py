"""A pod whose limit its agent could not read is there: ensurance keeps what it declared and changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ensurance_scene import Scene, reported

from slackwater.events.envelope import Event
from slackwater.events.intent_observed import READ_REFUSED, ObservedLimit
from slackwater.events.usage_reported import UsageReported


async def report(scene: Scene, pressure: float, *unread: str, **more: Any) -> Event[UsageReported]:
    """A second passes, then n1 reports that these pods' limits could not be read."""
    await scene.clock.advance(1)
    scene.sequence += 1
    event = reported(scene.sequence, at=scene.clock.now(), pressure=pressure, **more)
    pods = tuple(replace(one, unread="read_refused") if one.pod.uid in unread else one for one in event.data.pods)
    await scene.guard(event.model_copy(update={"data": event.data.model_copy(update={"pods": pods})}))
    return event


async def throttled() -> Scene:
    scene = await Scene().open()
    await scene.report(0.2)
    await scene.confirm()
    assert scene.limits() == {"b1": 725}
    return scene


async def test_an_unread_pod_keeps_its_limit_and_nothing_is_declared() -> None:
    scene = await throttled()
    before, records = scene.intents()[-1], scene.records()
    for _ in range(30):
        await report(scene, 0.0, "b1", batch={"b1": 725}, prod=50)
    assert (scene.intents()[-1], scene.records()[len(records) :]) == (before, [])
    for _ in range(30):
        await report(scene, 0.0, batch={"b1": 725}, prod=50)
    assert (scene.limits(), scene.records()[-1].kind) == ({}, "restore")


async def test_a_shortage_is_taken_from_pods_whose_limits_are_known() -> None:
    scene = await throttled()
    await report(scene, 0.5, "b1", batch={"b1": 725, "b2": 800})
    assert scene.limits()["b1"] == 725
    assert scene.limits()["b2"] < 800


async def test_a_pod_that_is_not_reported_is_gone() -> None:
    scene = await throttled()
    await report(scene, 0.0, batch={})
    assert scene.limits() == {}


async def test_a_limit_that_was_not_read_back_stays_and_one_that_is_known_not_to_be_set_leaves() -> None:
    for error, left in ((READ_REFUSED, {"b1": 725}), ("write_refused", {})):
        scene = await Scene().open()
        await scene.report(0.2)
        await scene.confirm(ObservedLimit(pod_uid="b1", cpu_limit_milli=None, error=error))
        assert scene.limits() == left
