"""Ensurance decides nothing for a disconnected agent, because two owners of one surge would throttle twice what is
needed (decision 0045). It renews the lease until the agent has it."""

from __future__ import annotations

from datetime import datetime, timedelta

from ensurance_scene import Scene, reported

from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported, is_disconnected
from slackwater.events.waterline_crossed import crossing_of, report_of

IGNORED = "slackwater_ensurance_reports_ignored_total"


def alone(sequence: int, at: datetime, pressure: float = 0.5) -> Event[UsageReported]:
    event = reported(sequence, at=at, pressure=pressure)
    return event.model_copy(update={"data": is_disconnected(event.data)})


async def hearing(scene: Scene, seconds: int) -> None:
    for _ in range(seconds):
        await scene.clock.advance(1)
        scene.sequence += 1
        await scene.guard(alone(scene.sequence, scene.clock.now()))


async def test_a_surge_that_an_agent_answers_by_itself_is_not_answered_a_second_time() -> None:
    scene = await Scene().open()
    before = len(scene.intents())
    await hearing(scene, 5)
    assert scene.records() == []
    assert len(scene.intents()) == before
    assert scene.metric(IGNORED, reason="alone") == 5
    await scene.report(0.5)
    assert [one.kind for one in scene.records()] == ["throttle"], (
        "the agent has the renewal: ensurance is the owner again"
    )


async def test_its_urgent_reports_say_it_too() -> None:
    event = alone(1, Scene().clock.now())
    urgent = event.model_copy(update={"data": event.data.model_copy(update={"trigger": "waterline"})})
    crossing = crossing_of(urgent)
    assert crossing is not None
    assert report_of(crossing).data.alone


async def test_what_it_measured_before_is_not_acted_upon_when_it_comes_late() -> None:
    scene = await Scene().open()
    sampled = scene.clock.now()
    scene.sequence = 1
    await hearing(scene, 2)
    await scene.guard(reported(1, at=sampled, pressure=0.5))
    assert scene.records() == []


async def test_its_report_renews_the_lease() -> None:
    scene = await Scene().open()
    await hearing(scene, 61)
    await scene.reconcile()
    assert scene.cache.contacts.released_at == {}


async def test_an_agent_still_disconnected_after_two_renewals_is_notified_again_and_again_if_that_is_lost() -> None:
    """Started while it was cut off: it remembers a lease, and what is remembered cannot be renewed."""
    scene = await Scene().open()
    before = len(scene.intents())
    await hearing(scene, 10)
    assert await scene.reconcile() == 0
    await hearing(scene, 1)
    assert await scene.reconcile() == 1
    told = scene.intents()[before:]
    assert [one.lease_seconds for one in told] == [scene.settings.lease_seconds]
    assert told[0].declared_at == scene.clock.now()
    await hearing(scene, 5)
    assert await scene.reconcile() == 0
    await hearing(scene, 6)
    assert await scene.reconcile() == 1


async def test_an_agent_that_reconnected_is_not_notified_again() -> None:
    scene = await Scene().open()
    await hearing(scene, 9)
    await scene.report(0.0)
    await scene.clock.advance(5)
    assert await scene.reconcile() == 0
    assert scene.clock.now() - scene.cache.contacts.last_report_at["n1"] == timedelta(seconds=5)
