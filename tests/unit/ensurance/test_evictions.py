"""Evictions as items of the intent: exactly as far as the gap, credited while under way, the next after a refusal."""

from __future__ import annotations

import importlib
import json
from datetime import timedelta

import pytest
from ensurance_scene import described, reported
from guard_documents import PRESSED, DocumentScene

from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.kinds.avoidance_action import AVOIDANCE_ACTION
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.resources.kinds.pod_qos import POD_QOS

CROWD = {"b1": 300, "b2": 200, "b3": 100}


async def evicting(**autonomy: object) -> DocumentScene:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions(**autonomy)
    return scene


def items(scene: DocumentScene) -> list[str]:
    return [item.pod_uid for item in scene.intents()[-1].evictions]


async def test_the_first_that_close_the_gap_are_asked_to_go_with_id_grace_and_deadline() -> None:
    scene = await evicting()
    await scene.report(0.2, batch=CROWD)  # 1000 x 0.2 / 0.8 x 1.1 = 275
    record, intent = scene.records()[-1], scene.intents()[-1]
    (item,) = intent.evictions
    assert (item.pod_uid, item.grace_seconds, item.decision_id) == ("b1", 5, record.id)
    assert item.id.startswith(record.id)
    assert item.deadline == scene.clock.now() + timedelta(seconds=120)
    assert (record.kind, record.reason, record.result, record.unit) == (
        "evict", "evict_waterline_crossed", 300, "milli-cores",
    )  # fmt: skip
    assert [(action.pod_uid, action.evicted, action.released_milli) for action in record.actions] == [("b1", True, 300)]
    spared = {one.what: one for one in record.alternatives}
    assert (spared["name-b2"].rejected_because, spared["name-b2"].would_release) == ("the gap is closed", 200)
    assert len(spared["name-b2"].keys) == len(record.order.split(", ")) - 1
    assert spared["name-p1"].rejected_because == "tier prod is protected"


async def test_what_is_under_way_is_credited_and_leaves_the_intent_when_it_has_ended() -> None:
    scene = await evicting()
    await scene.report(0.2, batch=CROWD)
    generation = scene.intents()[-1].generation
    await scene.report(0.2, batch=CROWD)
    assert (items(scene), scene.intents()[-1].generation) == (["b1"], generation)
    await scene.ended(EvictionOutcome.TERMINATED)
    assert (items(scene), scene.intents()[-1].generation) == ([], generation + 1)
    await scene.report(0.2, batch=CROWD)  # sampled before it was gone: still credited
    assert len(scene.records()) == 1


async def test_after_a_refusal_the_next_is_tried_and_the_refused_is_left_alone() -> None:
    scene = await evicting()
    await scene.report(0.2, batch=CROWD)
    await scene.ended(EvictionOutcome.REFUSED)
    await scene.report(0.2, batch=CROWD)
    assert items(scene) == ["b2", "b3"]
    told = {one.what: one.rejected_because for one in scene.records()[-1].alternatives}
    assert told["name-b1"] == "its eviction was refused"


async def test_what_was_refused_leaves_the_hour_to_the_next_and_what_ended_does_not() -> None:
    scene = await evicting(nodeEvictionsPerHour=2)
    await scene.report(0.3, batch=CROWD)  # 471: b1 and b2, at the same time
    assert items(scene) == ["b1", "b2"]
    await scene.ended(EvictionOutcome.REFUSED)
    await scene.report(0.3, batch=CROWD)
    assert items(scene) == ["b2", "b3"], "one of two has ended no pod"
    await scene.ended(EvictionOutcome.TERMINATED)
    await scene.clock.advance(61)
    await scene.report(0.3, batch={"b1": 300, "b3": 100})
    assert items(scene) == ["b3"]
    assert scene.records()[-1].remaining_because == "no more than 2 evictions an hour"


async def test_what_an_agent_evicted_while_it_was_alone_counts_for_the_hour_once() -> None:
    scene = await evicting(nodeEvictionsPerHour=1)
    now = scene.clock.now()
    alone = EvictionCompleted(
        id="x/1", node="n1", pod_uid="gone", writer="agent", outcome=EvictionOutcome.TERMINATED, completed_at=now,
        decision_id="x",
    )  # fmt: skip
    for _ in range(2):
        await scene.evicted(event_of(alone, source="agent", time=now))
    await scene.report(0.2, batch=CROWD)
    assert (items(scene), scene.records()[-1].remaining_because) == ([], "no more than 1 evictions an hour")
    await scene.clock.advance(3600)
    await scene.report(0.2, batch=CROWD)
    assert items(scene) == ["b1"]


@pytest.mark.parametrize("again", list(EvictionOutcome))
async def test_an_eviction_that_is_answered_twice_changes_nothing_more(again: EvictionOutcome) -> None:
    """After a power failure of the broker an agent may see an older document and answer its id again."""
    scene = await evicting()
    await scene.report(0.2, batch=CROWD)
    (item,) = scene.intents()[-1].evictions
    await scene.ended(EvictionOutcome.KILLED)
    before = scene.intents(), scene.cache.node("n1")
    answer = EvictionCompleted(
        id=item.id, node="n1", pod_uid=item.pod_uid, writer="ensurance", outcome=again,
        completed_at=scene.clock.now() + timedelta(seconds=1), decision_id=item.decision_id,
    )  # fmt: skip
    await scene.evicted(event_of(answer, source="agent", time=answer.completed_at))
    assert (scene.intents(), scene.cache.node("n1")) == before


@pytest.mark.parametrize("outcome", list(EvictionOutcome))
async def test_an_agent_that_knows_the_id_of_another_nodes_eviction_changes_nothing(outcome: EvictionOutcome) -> None:
    scene = await evicting()
    await scene.describe(described("n2", at=scene.clock.now()))
    await scene.report(0.2, batch=CROWD)
    (item,) = scene.intents()[-1].evictions
    before, standing = scene.cache.nodes(), scene.standings.get("default")
    forged = EvictionCompleted(
        id=item.id, node="n2", pod_uid=item.pod_uid, writer="ensurance", outcome=outcome,
        completed_at=scene.clock.now(), decision_id=item.decision_id,
    )  # fmt: skip
    await scene.evicted(event_of(forged, source="agent", time=forged.completed_at))
    assert (scene.cache.nodes(), scene.standings.get("default")) == (before, standing)
    await scene.ended(EvictionOutcome.TERMINATED)
    assert not scene.cache.node("n1").evictions  # type: ignore[union-attr]


async def test_the_effect_is_measured_once_the_last_of_a_decision_has_ended() -> None:
    scene = await evicting()
    await scene.report(0.3, batch=CROWD)  # 471: b1 and b2
    assert items(scene) == ["b1", "b2"]
    await scene.ended(EvictionOutcome.KILLED)
    await scene.report(0.3, batch={"b2": 200, "b3": 100})
    assert scene.published(EffectMeasured) == []
    await scene.ended(EvictionOutcome.TERMINATED)
    await scene.report(0.02, batch={"b3": 100})
    (effect,) = scene.published(EffectMeasured)
    assert (effect.data.decision_id, effect.data.relieved) == (scene.records()[0].id, True)
    assert scene.standings["default"].state.missed_in_a_row == 0


async def with_a_grace_of_ten_minutes() -> DocumentScene:
    scene = await evicting()
    await scene.apply(
        AVOIDANCE_ACTION, "evict", {"eviction": {"terminationGracePeriodSeconds": 600}, "disableScheduling": False}
    )
    await scene.report(0.2, batch=CROWD)
    return scene


async def test_a_pod_with_a_long_grace_period_is_credited_and_not_evicted_again_until_it_is_over() -> None:
    scene = await with_a_grace_of_ten_minutes()
    (item,) = scene.intents()[-1].evictions
    assert item.deadline == scene.clock.now() + timedelta(seconds=120), "it begins at once or not at all"
    for _ in range(6):
        await scene.clock.advance(100)
        await scene.report(0.2, batch=CROWD)
        assert ([one.id for one in scene.intents()[-1].evictions], len(scene.records())) == ([item.id], 1)
    await scene.clock.advance(30)
    await scene.report(0.2, batch=CROWD)
    assert items(scene) == ["b1", "b2", "b3"], "half a minute after its grace it should have been gone"
    await scene.clock.advance(120)
    await scene.report(0.0, batch=CROWD)
    assert items(scene) == ["b2", "b3"], "and no completion arrives"


async def test_the_effect_of_a_long_grace_is_measured_when_it_is_over() -> None:
    scene = await with_a_grace_of_ten_minutes()
    await scene.clock.advance(500)
    await scene.report(0.2, batch=CROWD)
    await scene.ended(EvictionOutcome.TERMINATED)
    await scene.report(0.02, batch={"b2": 200, "b3": 100})
    (effect,) = scene.published(EffectMeasured)
    assert (effect.data.decision_id, effect.data.relieved) == (scene.records()[0].id, True)


async def test_a_restart_forgets_no_eviction_and_asks_for_none_twice() -> None:
    scene = await evicting()
    await scene.report(0.2, batch=CROWD)
    ids = [item.id for item in scene.intents()[-1].evictions]
    scene.start()
    await scene.cache.load()
    await scene.reconcile.acquire(ALL_PARTITIONS)
    assert [item.id for item in scene.intents()[-1].evictions] == ids
    await scene.report(0.2, batch=CROWD)
    assert len(scene.records()) == 1


async def test_no_more_begin_in_a_cycle_and_in_an_hour_than_may() -> None:
    scene = await evicting()
    crowd = {f"b{number:02}": 30 for number in range(40)}
    await scene.report(0.9, batch=crowd)
    assert len(items(scene)) == 3
    assert scene.records()[-1].remaining_because == "no more than 3 evictions in one cycle"


async def test_a_pool_may_be_given_other_caps() -> None:
    scene = await evicting(nodeEvictionsPerCycle=1, nodeEvictionsPerHour=2)
    crowd = {f"b{number:02}": 30 for number in range(40)}
    for count in (1, 2, 2):
        await scene.report(0.9, batch=crowd)
        assert len(items(scene)) == count
    assert scene.records()[-1].remaining_because == "no more than 2 evictions an hour"


async def test_an_eviction_without_an_answer_is_given_up() -> None:
    scene = await evicting()
    await scene.report(0.2, batch=CROWD)
    await scene.clock.advance(120 + 301)
    await scene.report(0.0, batch=CROWD)
    assert items(scene) == []


@pytest.mark.parametrize("mode", ["throttle", "observe"])
async def test_a_pool_without_evictions_previews_once(mode: str) -> None:
    scene = await evicting(mode=mode)
    for _ in range(3):
        await scene.report(0.2, batch=CROWD)
    assert [(one.kind, one.reason, one.mode) for one in scene.records()] == [("evict", "evict_observed_only", mode)]
    assert items(scene) == []


async def test_every_eviction_is_repeated_from_its_json() -> None:
    scene = await evicting()
    await scene.report(0.3, batch=CROWD)
    await scene.apply(AUTONOMY, "default", {"mode": "throttle"})
    await scene.report(0.3, batch={"b8": 700})
    assert {one.reason for one in scene.records()} == {"evict_waterline_crossed", "evict_observed_only"}
    for record in scene.records():
        module, _, name = record.replay.function.partition(":")
        plan = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(record.replay.arguments)))
        assert [step["uid"] for step in plan["steps"]] == [action.pod_uid for action in record.actions]


# ---- autonomy


async def test_a_pool_that_evicts_too_much_steps_back_and_an_operator_starts_it_anew() -> None:
    scene = await evicting(evictionsPerHour=1)
    await scene.report(0.3, batch=CROWD)
    assert items(scene) == ["b1", "b2"]
    assert scene.metric("slackwater_ensurance_stepped_back_pools") == 1
    for number in range(2):
        await scene.ended(EvictionOutcome.TERMINATED, 0)
        assert len(items(scene)) == 1 - number
    await scene.report(0.3, batch={"b3": 300})
    await scene.report(0.3, batch={"b3": 300})
    assert items(scene) == []
    assert scene.records()[-1].reason == "evict_observed_only"
    assert scene.records()[-1].mode == "throttle"
    await scene.apply(AUTONOMY, "default", {"mode": "evict", "evictionsPerHour": 5})
    await scene.report(0.3, batch={"b3": 300})
    assert items(scene) == ["b3"]


async def test_evictions_that_bring_no_relief_make_the_pool_step_back() -> None:
    scene = await evicting(reliefsMissed=1)
    await scene.report(0.2, batch=CROWD)
    await scene.ended(EvictionOutcome.TERMINATED)
    await scene.report(0.2, batch={"b2": 200, "b3": 100})
    standing = scene.standings["default"]
    assert standing.state.because == "1 evictions in a row brought no relief"
    scene.start()
    await scene.cache.load()
    await scene.report(0.2, batch={"b2": 200, "b3": 100})
    assert items(scene) == [], "a restarted replica has it too"


@pytest.mark.parametrize(("autonomy", "gone"), [({}, []), ({"blanketEvictions": 1}, ["b1"])])
async def test_an_unquantified_metric_evicts_no_pod_unless_the_pool_allows_a_few(
    autonomy: dict[str, int], gone: list[str]
) -> None:
    scene = await evicting(**autonomy)
    pressed = PRESSED | {"metricRule": {"name": "prod_memory_pressure", "value": 0.1}}
    await scene.apply(NODE_QOS, "evicting", {"rules": [pressed]})
    for _ in range(3):
        await scene.report(0.0, batch=CROWD, memory_pressure=0.5)
    assert items(scene) == gone
    assert {one.remaining_because for one in scene.records()} == {"prod_memory_pressure cannot be quantified"}


async def test_the_agents_own_pod_and_pods_that_refuse_eviction_are_spared_with_the_reason() -> None:
    scene = await evicting()
    labels = {"b1": {"slackwater.io/protected": "agent"}, "b2": {"slackwater.io/eviction-enabled": "false"}}
    await scene.report(0.2, batch=CROWD, labels=labels)
    assert items(scene) == ["b3"]
    told = {one.what: one.rejected_because for one in scene.records()[-1].alternatives}
    assert told["name-b1"] == "it is the agent itself"
    assert told["name-b2"] == "it does not let itself be evicted"


async def test_a_slow_eviction_is_pending_until_its_completion() -> None:
    scene = await evicting()
    await scene.report(0.2, batch={"b1": 300})
    await scene.clock.advance(130)  # no longer credited
    await scene.report(0.2, batch={"b1": 300})
    assert items(scene) == ["b1"]
    assert len(scene.records()) == 2
    told = scene.records()[-1]
    assert (told.result, told.remaining_because) == (0, "no pod may be evicted for it")
    assert {one.what: one.rejected_because for one in told.alternatives}["name-b1"] == "it is already on its way out"


async def test_no_pod_is_evicted_unless_a_podqos_allows_it() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    await scene.changes[POD_QOS].delete("default")
    await scene.report(0.3, batch=CROWD)
    assert items(scene) == []
    assert scene.records()[-1].remaining_because == "no pod may be evicted for it"


async def test_rules_are_for_the_nodes_that_their_selector_names() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    await scene.apply(NODE_QOS, "evicting", {"selector": {"matchLabels": {"disk": "ssd"}}, "rules": [PRESSED]})
    await scene.report(0.3, batch=CROWD)
    assert (items(scene), scene.records(), scene.intents()[-1].waterlines) == ([], [], ())


async def test_a_document_that_cannot_be_read_any_more_keeps_what_it_was() -> None:
    scene = await evicting()
    row = scene.stores[AVOIDANCE_ACTION].rows["evict"]
    scene.stores[AVOIDANCE_ACTION].rows["evict"] = type(row)("evict", 2, {"kind": "AvoidanceAction", "future": True})
    await scene.follow.catch_up()
    await scene.report(0.2, batch=CROWD)
    assert items(scene) == ["b1"]


async def test_a_throttle_and_an_eviction_share_one_report_and_go_no_further_than_the_gap() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    both = [PRESSED, PRESSED | {"name": "first", "actionName": "throttle"}]
    await scene.apply(NODE_QOS, "evicting", {"rules": both})
    await scene.report(0.3, batch={"b1": 300, "b2": 200, "b3": 100})  # 471
    first, second = scene.records()
    assert (first.kind, second.kind) == ("throttle", "evict")
    assert scene.limits() == {"b1": 50, "b2": 50, "b3": 50}
    assert second.result == 50, "what the throttle took is not evicted again"
    assert scene.intents()[-1].generation == scene.rows["n1"].generation


async def test_a_report_of_an_unknown_pool_follows_the_cluster() -> None:
    scene = await evicting()
    await scene.change(mode="observe")
    node = scene.cache.node("n1")
    assert node is not None
    assert scene.cache.options(node, scene.clock.now()).mode == "evict"
    await scene.changes[AUTONOMY].delete("default")
    assert scene.cache.options(node, scene.clock.now()).mode == "observe"
    assert reported(1, at=scene.clock.now(), pressure=0.1).data.node == "n1"
