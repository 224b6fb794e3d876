"""Services run in memory as their composition roots build them: events in, events out, restarts and hand-overs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from colocation_memory import answer_colocation
from ensurance_scene import reported
from prediction_memory import answer_snapshots
from tests.support.clock import FakeClock
from tests.support.scene import Scene
from tests.support.windows import START, described, window

from slackwater.colocation.service import build as build_colocation
from slackwater.colocation.settings import ColocationSettings
from slackwater.ensurance.adapters.guard_rows import GUARDED
from slackwater.ensurance.service import build as build_ensurance
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.envelope import Payload
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.identifiers import PARTITIONS
from slackwater.prediction.service import build as build_prediction
from slackwater.prediction.settings import PredictionSettings
from slackwater.runtime.platform import new_member

P = TypeVar("P", bound=Payload)
ANSWERS = {"colocation": answer_colocation, "prediction": answer_snapshots}


def scene_at_start() -> Scene:
    return Scene(FakeClock(START), answers=ANSWERS)


def published(scene: Scene, payload: type[P]) -> list[P]:
    return [event.data for event in scene.bus.published if isinstance(event.data, payload)]


async def publish_windows(scene: Scene, minutes: int, first: int = 0) -> None:
    for number in range(first, first + minutes):
        await scene.advance(60)
        await scene.bus.publish(window("n", number, {"p": 500}))
        await scene.settle()


async def test_windows_become_peaks_and_peaks_become_offers() -> None:
    scene = scene_at_start()
    async with (
        scene.running(build_prediction, PredictionSettings()),
        scene.running(build_colocation, ColocationSettings()),
    ):
        await scene.bus.publish(described("n"))
        await publish_windows(scene, 5)
        await scene.advance(60)
    peaks, offers = published(scene, PeakPredicted), published(scene, ResourcesOffered)
    assert {peak.node for peak in peaks} == {offer.node for offer in offers} == {"n"}
    assert any(offer.batch.cpu_milli > 0 for offer in offers)


async def test_a_restarted_service_goes_on_with_what_its_database_holds() -> None:
    scene = scene_at_start()
    for first in (0, 3):
        async with scene.running(build_colocation, ColocationSettings()):
            if not first:
                await scene.bus.publish(described("n"))
            await publish_windows(scene, 3, first)
    generations = [offer.generation for offer in published(scene, ResourcesOffered)]
    assert generations == [*range(1, len(generations) + 1)]
    assert generations


async def guard(scene: Scene, sequence: int, **more: Any) -> None:
    await scene.advance(1)
    await scene.bus.publish(reported(sequence, at=scene.clock.now(), node="n", **more))
    await scene.settle()


async def test_pressure_becomes_an_intent() -> None:
    scene = scene_at_start()
    async with scene.running(build_ensurance, EnsuranceSettings()):
        await scene.bus.publish(described("n"))
        await scene.settle()
        for sequence in range(1, 6):
            await guard(scene, sequence, pressure=0.9)
    assert [throttle.pod_uid for throttle in published(scene, IntentDeclared)[-1].throttles] == ["b1"]
    assert scene.database("ensurance").rows(GUARDED)["n"].generation == published(scene, IntentDeclared)[-1].generation


async def test_two_replicas_share_the_partitions_and_the_last_one_takes_them_all() -> None:
    scene = scene_at_start()
    other = Scene(scene.clock, scene.bus)
    other.platform = replace(scene.platform, member=new_member())
    async with scene.running(build_ensurance, EnsuranceSettings()) as first:
        async with other.running(build_ensurance, EnsuranceSettings()) as second:
            await scene.advance(10)
            shares = [standing.leases for one in (first, second) if (standing := one.standing()) is not None]
            owners = [lease.owner for lease in shares[0]]
            assert {owners.count(owner) for owner in set(owners)} == {PARTITIONS // 2}
        await scene.advance(10)
        standing = first.standing()
        assert standing is not None
        assert {lease.owner for lease in standing.leases} == {scene.platform.member}


async def test_a_service_that_cannot_start_says_why() -> None:
    scene = scene_at_start()
    scene.database("colocation").away = True
    with pytest.raises(Exception, match="away"):
        async with scene.running(build_colocation, ColocationSettings()):
            pass


async def test_time_is_the_scene_s() -> None:
    scene = scene_at_start()
    await scene.advance(5)
    assert scene.clock.now() == START + timedelta(seconds=5)
