"""Reports in; decisions, intents and measured effects out."""

from __future__ import annotations

import importlib
import json
from datetime import timedelta
from decimal import Decimal

import pytest
from ensurance_scene import Scene, reported

from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import IntentDeclared, LocalWaterline, WeightPolicy
from slackwater.events.intent_observed import ObservedLimit
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import ALL_PARTITIONS


def repeated(record: DecisionRecord) -> object:
    """The plan of a record, made again from its own JSON."""
    module, _, name = record.replay.function.partition(":")
    arguments = json.loads(json.dumps(record.replay.arguments))
    return getattr(importlib.import_module(module), name)(**arguments)


async def test_a_described_node_gets_weights_and_waterlines_at_once() -> None:
    scene = await Scene().open()
    intent = scene.intents()[-1]
    assert (intent.generation, intent.writer, intent.weights) == (1, "ensurance", WeightPolicy.BY_TIER_IDLE)
    assert intent.waterlines == (
        LocalWaterline(metric="prod_cpu_pressure", value=0.10),
        LocalWaterline(metric="prod_memory_refaults", value=32 * 2**20),
        LocalWaterline(metric="node_memory_usage_ratio", value=0.9),
    )
    assert intent.throttles == ()


async def test_a_crossed_waterline_gives_a_record_and_an_intent_that_name_the_report() -> None:
    scene = await Scene().open()
    report = await scene.report(0.2)
    decision, intent = scene.published(DecisionRecorded)[-1], scene.published(IntentDeclared)[-1]
    record = decision.data.record
    assert (record.kind, record.reason) == ("throttle", "throttle_waterline_crossed")
    assert record.result == 275  # 1000 x 0.2 / 0.8, and a tenth more
    assert record.trigger_event_id == report.id == decision.causedby
    assert intent.causedby == decision.id
    assert intent.data.generation == 2
    assert [(t.pod_uid, t.cpu_limit_milli, t.decision_id) for t in intent.data.throttles] == [("b1", 725, record.id)]


async def test_a_record_explains_itself() -> None:
    scene = await Scene().open()
    report = await scene.report(0.9, batch={"b1": 30, "b2": 1000})
    record = scene.records()[-1]
    inputs = {one.name: one for one in record.inputs}
    assert (inputs["prod_cpu_pressure"].value, inputs["waterline"].value) == (0.9, 0.10)
    assert (inputs["prod_usage"].value, inputs["capacity"].value) == (1000, 2000)
    assert inputs["prod_cpu_pressure"].source == report.id
    assert inputs["prod_cpu_pressure"].observed_at == report.data.sampled_at
    assert inputs["waterline"].source == "nodeqos/default@1"
    assert [(term.name, term.value) for term in record.terms] == [("name-b2", 950)]
    assert {(a.what, a.rejected_because) for a in record.alternatives} == {
        ("name-p1", "tier prod is protected"),
        ("name-b1", "at its floor"),
    }
    assert record.remaining == 1100 - 950
    assert record.remaining_because


async def test_a_calm_report_costs_no_transaction() -> None:
    scene = await Scene().open()
    before = scene.database.writes
    for _ in range(20):
        await scene.report(0.02)
    assert scene.database.writes == before


async def test_every_record_is_repeated_from_its_json_with_the_same_actions() -> None:
    scene = await Scene().open()
    for pressure, prod in ((0.4, 1200), (0.3, 1300), (0.0, 100), (0.0, 100), (0.0, 100), (0.0, 100), (0.5, 900)):
        await scene.report(pressure, prod=prod, batch={"b1": 700, "b2": 100})
        await scene.confirm()
    await scene.change(mode="observe")
    records = scene.records()
    assert {record.kind for record in records} == {"throttle", "restore"}
    assert records[-1].reason == "restore_mode_changed"
    for record in records:
        plan = repeated(record)
        assert isinstance(plan, dict)
        steps = [step for step in plan["steps"] if step["kind"] == record.kind]
        assert [(step["uid"], *in_milli(step["changes"])) for step in steps] == [
            (a.pod_uid, a.cpu_limit_before_milli, a.cpu_limit_after_milli) for a in record.actions
        ]
        remaining = sum(int(Decimal(left["open"])) for left in plan["remaining"])
        assert remaining == record.remaining


def in_milli(changes: list[dict[str, int | None]]) -> list[int | None]:
    """Before and after, of quotas in microseconds per 100 ms."""
    quotas = [changes[0]["before_us"], changes[0]["after_us"]]
    return [None if quota is None else quota // 100 for quota in quotas]


async def test_it_restores_in_steps_and_the_last_intent_is_empty() -> None:
    scene = await Scene().open()
    await scene.report(0.8, prod=1500, batch={"b1": 500})
    assert scene.limits() == {"b1": 50}
    seen = []
    for _ in range(8):
        await scene.confirm()
        await scene.report(0.0, prod=100, batch={"b1": 50})
        seen.append(scene.limits())
    assert {"b1": 1050} in seen
    assert seen[-1] == {}
    assert [record.reason for record in scene.records()][1:] == ["restore_headroom", "restore_complete"]


async def test_the_effect_is_measured_in_the_first_sample_after_the_node_has_acted() -> None:
    scene = await Scene().open()
    await scene.report(0.2)
    await scene.report(0.2)  # not confirmed yet: shows nothing of it
    assert scene.published(EffectMeasured) == []
    await scene.confirm()
    await scene.report(0.05, batch={"b1": 725})
    effect = scene.published(EffectMeasured)[0].data
    assert effect.decision_id == scene.records()[0].id
    assert (effect.before, effect.after, effect.waterline, effect.relieved) == (0.2, 0.05, 0.10, True)
    assert effect.seconds_to_actuation == pytest.approx(1.1)
    assert effect.seconds_to_measurement == pytest.approx(2.1)
    await scene.report(0.05, batch={"b1": 725})
    assert len(scene.published(EffectMeasured)) == 1


async def test_an_unconfirmed_effect_is_given_up() -> None:
    scene = await Scene().open()
    await scene.report(0.2)
    await scene.clock.advance(61)
    await scene.report(0.05)
    assert scene.rows["n1"].awaited == ()


# ---- what must not cause action


@pytest.mark.parametrize(
    ("shift", "sequence", "boot_epoch", "reason"),
    [
        (-11, 9, "boot-1", "too_old"),
        (11, 9, "boot-1", "from_the_future"),
        (0, 1, "boot-1", "known"),
        (0, 0, "boot-1", "replayed"),
        (-2, 9, "boot-0", "replayed"),
    ],
)
async def test_a_report_from_another_time_is_ignored_and_counted(
    shift: float, sequence: int, boot_epoch: str, reason: str
) -> None:
    scene = await Scene().open()
    await scene.report(0.0)
    before = len(scene.database.published)
    at = scene.clock.now() + timedelta(seconds=shift)
    await scene.guard(reported(sequence, at=at, pressure=0.9, boot_epoch=boot_epoch))
    assert len(scene.database.published) == before
    assert scene.metric("slackwater_ensurance_reports_ignored_total", reason=reason) == 1


async def test_a_restarted_agent_counts_from_one_again() -> None:
    scene = await Scene().open()
    await scene.report(0.0)
    await scene.clock.advance(1)
    await scene.guard(reported(1, at=scene.clock.now(), pressure=0.9, boot_epoch="boot-2"))
    assert scene.limits()


async def test_a_node_without_inventory_is_left_alone() -> None:
    scene = await Scene().open()
    await scene.guard(reported(1, at=scene.clock.now(), pressure=0.9, node="stranger"))
    assert scene.intents("stranger") == []
    assert scene.metric("slackwater_ensurance_reports_ignored_total", reason="unknown_node") == 1


async def test_the_same_report_delivered_again_after_a_crash_decides_nothing() -> None:
    scene = await Scene().open()
    report = await scene.report(0.2)
    scene.start()
    await scene.open()
    await scene.guard(report)
    assert len(scene.records()) == 1
    assert scene.metric("slackwater_ensurance_reports_ignored_total", reason="known") == 1


# ---- survival


async def test_a_restart_keeps_the_throttle_and_gives_it_back() -> None:
    scene = await Scene().open()
    await scene.report(0.2)
    scene.start()
    await scene.open()
    await scene.reconcile.acquire(ALL_PARTITIONS)
    assert scene.limits() == {"b1": 725}
    for _ in range(8):
        await scene.confirm()
        await scene.report(0.0, prod=100, batch={"b1": 725})
    assert scene.limits() == {}


async def test_when_the_store_is_away_nothing_is_forgotten_and_nothing_half_done() -> None:
    scene = await Scene().open()
    scene.database.away = True
    with pytest.raises(Unavailable):
        await scene.report(0.2)
    scene.database.away = False
    assert scene.records() == []
    await scene.report(0.2)
    assert scene.limits() == {"b1": 725}
    assert scene.rows["n1"].generation == 2


async def test_what_another_process_wrote_is_read_before_the_next_try() -> None:
    scene = await Scene().open()
    other = Scene(clock=scene.clock, database=scene.database)
    other.store = scene.store
    other.start()
    await other.cache.load()
    await scene.report(0.2)
    other.sequence = 1
    with pytest.raises(Exception, match="version"):
        await other.report(0.2)
    await other.report(0.2)
    assert other.cache.node("n1").generation >= 2  # type: ignore[union-attr]  # it is there: the other one described it


# ---- what the node says


async def test_a_limit_that_could_not_be_written_leaves_the_intent() -> None:
    scene = await Scene().open()
    await scene.report(0.2)
    await scene.confirm(ObservedLimit(pod_uid="b1", cpu_limit_milli=None, error="gone"))
    assert (scene.limits(), scene.intents()[-1].generation) == ({}, 3)


async def test_an_evicted_pod_leaves_the_intent_once() -> None:
    scene = await Scene().open()
    await scene.report(0.2)
    now = scene.clock.now()
    ended = EvictionCompleted(
        id="e1",
        node="n1",
        pod_uid="b1",
        writer="migration",
        outcome=EvictionOutcome.KILLED,
        completed_at=now,
        decision_id="d1",
    )
    for _ in range(2):
        await scene.evicted(event_of(ended, source="agent", time=now))
    assert (scene.limits(), scene.intents()[-1].generation) == ({}, 3)


async def test_the_gauges_follow_the_node() -> None:
    scene = await Scene().open()
    await scene.report(0.9, batch={"b1": 1000})
    assert scene.metric("slackwater_ensurance_throttled_pods") == 1
    assert scene.metric("slackwater_ensurance_remaining_gap_cores") == pytest.approx(0.15)
    labels = {"kind": "throttle", "reason": "throttle_waterline_crossed"}
    assert scene.metric("slackwater_ensurance_decisions_total", **labels) == 1
    for _ in range(8):
        await scene.confirm()
        await scene.report(0.0, prod=100)
    assert scene.metric("slackwater_ensurance_throttled_pods") == 0
    assert scene.metric("slackwater_ensurance_remaining_gap_cores") == 0
