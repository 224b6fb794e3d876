"""Decisions beyond the node's budget are carried out, counted and listed; a restart keeps episode and account."""

from __future__ import annotations

from tests.unit.ensurance.ensurance_scene import Scene

from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.intent_declared import IntentDeclared

NONE = EnsuranceSettings(record_burst_bytes=0, record_bytes_per_hour=0)


def counted(scene: Scene, form: str) -> float:
    value = scene.registry.get_sample_value("slackwater_ensurance_decision_records_total", {"result": form})
    assert value is not None
    return value


async def throttled_and_restored(scene: Scene) -> None:
    """One episode: a throttle, its measured effect, and calm reports until no limit is left."""
    await scene.report(0.8, prod=1500, batch={"b1": 500})
    for _ in range(60):
        await scene.confirm()
        await scene.report(0.0, prod=100, batch={"b1": 50})
        if not scene.limits():
            return
    raise AssertionError("the limit was never restored")


async def test_steps_from_the_throttle_to_the_last_restore_are_one_episode() -> None:
    scene = await Scene().open()
    await throttled_and_restored(scene)
    records = scene.records()
    assert len(records) > 1
    assert {record.episode for record in records} == {records[0].id}
    assert [record.step for record in records] == list(range(1, len(records) + 1))
    assert records[-1].reason == "restore_complete"
    await scene.clock.advance(3600)
    await throttled_and_restored(scene)
    assert scene.records()[len(records)].episode == scene.records()[len(records)].id, "the next throttle begins anew"


async def test_without_a_budget_limits_are_set_and_counted_and_nothing_is_published_about_them() -> None:
    scene = await Scene(settings=NONE).open()
    await throttled_and_restored(scene)
    assert not scene.records()
    assert not scene.published(EffectMeasured)
    assert any(event.data.throttles for event in scene.published(IntentDeclared))
    assert counted(scene, "listed") >= 2
    assert counted(scene, "full") == counted(scene, "compact") == 0


async def test_an_intent_of_an_unrecorded_decision_names_the_report_as_its_cause() -> None:
    scene = await Scene(settings=NONE).open()
    report = await scene.report(0.3)
    assert scene.published(IntentDeclared)[-1].causedby == report.id


async def test_a_later_record_lists_what_had_none_also_after_a_restart() -> None:
    scene = await Scene(settings=NONE).open()
    await throttled_and_restored(scene)
    unrecorded = int(counted(scene, "listed"))
    scene.settings = EnsuranceSettings(record_burst_bytes=10**6, record_bytes_per_hour=10**6)
    scene.start()
    await scene.cache.load()
    await scene.clock.advance(3600)
    await throttled_and_restored(scene)
    first = scene.records()[0]
    assert len(first.listed) == unrecorded
    assert [one.reason for one in first.listed][-1] == "restore_complete"
    assert not any(record.listed for record in scene.records()[1:])
