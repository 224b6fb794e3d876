"""A cordoned node: published, explained, renewed while it lasts, and never left cordoned."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from ensurance_scene import described
from guard_documents import DocumentScene
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.node_state import (
    CordonMessage,
    CordonNotice,
    as_others_see_it,
    cordon_message,
    lapsed,
    renewed,
)
from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.kinds.avoidance_action import AVOIDANCE_ACTION
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.waterline.analysis.scheduling import Scheduling

CLOSE: dict[str, Any] = {"coolDownSeconds": 3}
RULE: dict[str, Any] = {
    "name": "full",
    "metricRule": {"name": "prod_cpu_pressure", "value": 0.1},
    "actionName": "close",
    "restoreThreshold": 2,
}
NOON = datetime.fromisoformat("2026-01-05T12:00:00+00:00")


async def closing(**rule: Any) -> DocumentScene:
    """Prod's pressure closes the node, and nothing else is done."""
    scene = DocumentScene()
    await scene.open()
    await scene.apply(AVOIDANCE_ACTION, "close", CLOSE)
    await scene.apply(NODE_QOS, "gate", {"rules": [RULE | rule]})
    await scene.without_throttles()
    return scene


def told(scene: DocumentScene) -> list[NodeSchedulingChanged]:
    return [event.data for event in scene.published(NodeSchedulingChanged)]


def replayed(record: DecisionRecord) -> Any:
    module, _, name = record.replay.function.partition(":")
    return getattr(importlib.import_module(module), name)(**json.loads(json.dumps(record.replay.arguments)))


async def test_a_surge_closes_the_node_and_calm_opens_it_after_the_cool_down() -> None:
    scene = await closing()
    report = await scene.report(0.2)
    (closed,), (record,) = told(scene), scene.records()
    assert (closed.closed, closed.reason, closed.rules) == (True, "scheduling_waterline_crossed", ("gate.full",))
    assert (closed.decision_id, closed.since) == (record.id, scene.clock.now())
    assert closed.valid_until == scene.clock.now() + timedelta(seconds=scene.settings.closing_seconds)
    assert (record.kind, record.subject, record.result, record.rule) == ("scheduling", "scheduling", 1, "gate.full")
    assert record.trigger_event_id == report.id
    assert replayed(record)["is_disabled"]
    for _ in range(3):
        await scene.report(0.02)
    assert len(told(scene)) == 1, "calm, but the cool-down is not over"
    await scene.report(0.02)
    opened, why = told(scene)[-1], scene.records()[-1]
    assert (opened.closed, opened.reason, opened.valid_until) == (False, "scheduling_calm", None)
    assert (opened.decision_id, opened.rules, why.result) == (why.id, ("gate.full",), 0)
    assert not replayed(why)["is_disabled"]
    assert len(scene.records()) == 2
    await scene.report(0.02)
    assert len(told(scene)) == 2


async def test_a_cordon_is_published_after_its_record_which_is_its_cause() -> None:
    scene = await closing()
    await scene.report(0.2)
    *_, record, event = scene.database.published
    assert (event.data.TYPE, event.causedby) == ("node.scheduling_changed", record.id)


async def test_a_closing_is_renewed_when_half_of_its_time_is_over_and_keeps_its_decision() -> None:
    scene = await closing()
    await scene.report(0.2)
    for _ in range(59):
        await scene.report(0.2)
    assert len(told(scene)) == 1
    await scene.report(0.2)
    first, again = told(scene)
    assert (again.decision_id, again.since, again.closed) == (first.decision_id, first.since, True)
    assert again.valid_until is not None
    assert first.valid_until is not None
    assert again.valid_until == first.valid_until + timedelta(seconds=60)
    assert len(scene.records()) == 1


async def test_a_node_that_falls_silent_counts_as_open_and_is_closed_anew_only_by_a_new_trigger() -> None:
    scene = await closing()
    await scene.report(0.2)
    await scene.clock.advance(121)
    await scene.renew()
    assert len(told(scene)) == 1
    assert scene.cache.closed(scene.clock.now()) == 0
    await scene.report(0.02)
    assert (told(scene)[-1].closed, told(scene)[-1].reason) == (False, "scheduling_lapsed")
    assert not replayed(scene.records()[-1])["is_disabled"]
    await scene.report(0.2)
    await scene.clock.advance(121)
    await scene.report(0.2)
    first, second = told(scene)[-2:]
    assert first.closed
    assert second.closed
    assert first.decision_id != second.decision_id


async def test_deleting_the_policy_opens_the_node_at_once() -> None:
    scene = await closing()
    await scene.report(0.2)
    await scene.changes[NODE_QOS].delete("gate")
    opened, record = told(scene)[-1], scene.records()[-1]
    assert (opened.closed, opened.reason, opened.decision_id) == (False, "scheduling_rules_gone", record.id)
    assert not replayed(record)["is_disabled"]
    await scene.report(0.2)
    assert len(told(scene)) == 2


async def test_a_node_that_the_policy_does_not_match_any_more_opens_with_its_next_report() -> None:
    scene = await closing()
    await scene.apply(NODE_QOS, "gate", {"selector": {"matchLabels": {"disk": "slow"}}, "rules": [RULE]})
    await scene.report(0.2)
    assert told(scene) == []
    facts = described(at=scene.clock.now()).data
    for labels, closed in (({"disk": "slow"}, True), ({}, False)):
        changed = facts.model_copy(update={"facts": _labelled(facts, labels)})
        await scene.describe(event_of(changed, source="agent", time=scene.clock.now()))
        await scene.report(0.2)
        assert told(scene)[-1].closed == closed
    assert told(scene)[-1].reason == "scheduling_rules_gone"


def _labelled(described: NodeDescribed, labels: dict[str, str]) -> Any:
    return replace(described.facts, labels=labels)


async def test_a_pool_set_to_observe_uncordons_its_nodes_at_once_and_previews_once() -> None:
    scene = await closing()
    await scene.report(0.2)
    await scene.apply(AUTONOMY, "default", {"mode": "observe"})
    assert (told(scene)[-1].closed, told(scene)[-1].reason) == (False, "scheduling_mode_changed")
    for _ in range(3):
        await scene.report(0.2)
    would = scene.records()[-1]
    assert (would.reason, would.result, would.mode) == ("scheduling_observed_only", 1, "observe")
    assert replayed(would) == ["gate.full"]
    assert len(scene.records()) == 3
    assert len(told(scene)) == 2


async def test_a_preview_cordons_nothing_and_is_recorded_once_per_episode() -> None:
    scene = await closing(strategy="Preview")
    for pressure in (0.2, 0.2, 0.02, 0.02, 0.2):
        await scene.report(pressure)
    assert told(scene) == []
    assert [record.reason for record in scene.records()] == ["scheduling_observed_only"] * 2


async def test_a_metric_that_is_not_measured_any_more_opens_the_node_after_the_cool_down() -> None:
    scene = await closing()
    await scene.report(0.2)
    for _ in range(4):
        await scene.report(None)
    assert (told(scene)[-1].closed, told(scene)[-1].reason) == (False, "scheduling_not_measured")


async def test_a_rule_that_joins_is_named_at_once_with_the_same_decision() -> None:
    scene = await closing()
    full = {**RULE, "name": "fuller", "metricRule": {"name": "prod_cpu_pressure", "value": 0.5}}
    await scene.apply(NODE_QOS, "gate", {"rules": [RULE, full]})
    await scene.report(0.2)
    await scene.report(0.6)
    first, second = told(scene)
    assert second.rules == ("gate.full", "gate.fuller")
    assert (second.decision_id, second.since) == (first.decision_id, first.since)


async def test_the_default_policy_closes_nothing() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.report(0.5)
    assert scene.limits()
    assert told(scene) == []


async def test_an_action_that_throttles_and_closes_has_a_record_of_each() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.apply(AVOIDANCE_ACTION, "throttle", {"throttle": {}, "coolDownSeconds": 3})
    await scene.report(0.3)
    assert [record.kind for record in scene.records()] == ["throttle", "scheduling"]
    assert told(scene)[0].decision_id == scene.records()[-1].id
    assert scene.intents()[-1].throttles[0].decision_id == scene.records()[0].id


async def test_what_is_closed_survives_a_restart() -> None:
    scene = await closing()
    await scene.report(0.2)
    scene.start()
    await scene.cache.load()
    await scene.report(0.2)
    assert len(told(scene)) == 1
    for _ in range(4):
        await scene.report(0.02)
    assert not told(scene)[-1].closed


async def test_closed_nodes_are_counted() -> None:
    scene = await closing()
    await scene.report(0.2)
    assert scene.cache.closed(scene.clock.now()) == 1


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=30), st.sampled_from([10.0, 120.0]))
@settings(max_examples=200)
def test_others_never_take_for_closed_what_is_open_or_unseen(steps: list[tuple[int, bool]], valid: float) -> None:
    """Whatever the pauses: what others believe is the state after every cycle, and nothing lives on without one."""
    known: CordonNotice | None = None
    state, now = Scheduling(), NOON
    for pause, is_closed in steps:
        now += timedelta(seconds=pause)
        if lapsed(known, now):
            assert not as_others_see_it(state, known, now).is_disabled
        state = Scheduling(is_closed, now, ("p.r",) if is_closed else ())
        word = cordon_message(state, known, now, valid)
        if word is CordonMessage.CLOSED:
            assert known is None or lapsed(known, now)
            known = CordonNotice("d", "r", now, state.because, now + timedelta(seconds=valid))
        elif word is CordonMessage.STILL:
            assert known is not None
            known = renewed(known, state, now, valid)
        elif word is CordonMessage.OPENED:
            assert known is not None
            known = None
        assert (known is not None and not lapsed(known, now)) == is_closed
        if known is not None:
            assert timedelta(seconds=valid / 2) <= known.until - now <= timedelta(seconds=valid)


@pytest.mark.parametrize("seconds", [0, 59.9])
def test_a_cordon_is_not_published_again_while_its_notice_is_recent(seconds: float) -> None:
    known = CordonNotice("d", "r", NOON, ("p.r",), NOON + timedelta(seconds=120))
    assert cordon_message(Scheduling(True, NOON, ("p.r",)), known, NOON + timedelta(seconds=seconds), 120) is None
