"""Memory limits from report to intent, answer and record."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from ensurance_scene import pod_usage, usage
from guard_documents import DocumentScene

from slackwater.console.domain.arithmetic import working_of
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import event_of
from slackwater.events.intent_observed import IntentObserved, ObservedMemoryLimit
from slackwater.events.measures import Distribution, PodUsage, Usage
from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import Tier
from slackwater.resources.kinds.avoidance_action import AVOIDANCE_ACTION
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.waterline.execution.levers import NOT_REPORTED

MIB, GIB = 2**20, 2**30
REREAD: Mapping[str, Any] = {
    "name": "reread",
    "metricRule": {"name": "prod_memory_refaults", "value": "10Mi"},
    "actionName": "throttle",
    "coolDownSeconds": 30,
}
FULL: Mapping[str, Any] = {
    "name": "full",
    "metricRule": {"name": "node_memory_usage_ratio", "value": 0.75},
    "actionName": "evict",
}


def cached(uid: str, used: int = GIB, cache: int | None = 2 * GIB, tier: Tier = Tier.BATCH, *, at: Any) -> PodUsage:
    memory = Distribution(avg=used, max=used, last=used, count=1)
    pod = replace(pod_usage(uid, tier, 100, at=at), usage=Usage(usage(100).cpu_milli, memory))
    return replace(pod, reclaimable_bytes=cache)


async def opened(*rules: Mapping[str, Any]) -> DocumentScene:
    scene = DocumentScene()
    await scene.open()
    await scene.change(rules=())
    await scene.apply(NODE_QOS, "memory", {"rules": [dict(rule) for rule in rules]})
    return scene


async def report(
    scene: DocumentScene,
    refaults: float | None,
    *,
    used: int = GIB,
    caches: Mapping[str, int | None] | None = None,
    free: int | None = None,
) -> None:
    await scene.clock.advance(1)
    scene.sequence += 1
    at = scene.clock.now()
    known = {"b1": 2 * GIB, "b2": 2 * GIB} if caches is None else caches
    memory = Distribution(avg=used, max=used, last=used, count=1)
    body = UsageReported(
        node="n1",
        boot_epoch="boot-1",
        sequence=scene.sequence,
        sampled_at=at,
        window_seconds=1.0,
        node_usage=Usage(usage(300).cpu_milli, memory),
        pods=(
            cached("p1", tier=Tier.PROD, at=at),
            *(cached(uid, cache=cache, at=at) for uid, cache in known.items()),
        ),
        prod_refault_bytes_per_second=refaults,
        node_free_bytes=free,
    )
    await scene.guard(event_of(body, source="agent", time=at))


async def observed(scene: DocumentScene, *limits: ObservedMemoryLimit) -> None:
    await scene.clock.advance(0.1)
    now, intent = scene.clock.now(), scene.intents()[-1]
    body = IntentObserved(
        node="n1",
        writer="ensurance",
        generation=intent.generation,
        boot_epoch="boot-1",
        received_at=now,
        observed_at=now,
        memory_limits=limits,
    )
    await scene.observe(event_of(body, source="agent", time=now))


def highs(scene: DocumentScene) -> dict[str, int]:
    return {one.pod_uid: one.memory_high_bytes for one in scene.intents()[-1].memory_throttles}


async def test_prods_refaults_lower_the_memory_of_batch_and_the_record_adds_up() -> None:
    scene = await opened(REREAD)
    await report(scene, 50 * MIB)  # 50 MiB/s x 10 s x 1.1 = 550 MiB of at most 2 x 25 % of 3 GiB
    assert highs(scene) == {"b1": 3 * GIB - 550 * MIB}
    record, intent = scene.records()[-1], scene.intents()[-1]
    assert intent.memory_throttles[0].decision_id == record.id
    assert intent.throttles == ()
    assert (record.kind, record.subject, record.unit) == ("throttle", "memory", "bytes")
    assert (record.reason, record.rule) == ("throttle_waterline_crossed", "reread")
    assert record.result == sum(term.value for term in record.terms) == 550 * MIB
    (action,) = record.actions
    assert action.memory is not None
    assert (action.memory.before_bytes, action.memory.after_bytes) == (None, 3 * GIB - 550 * MIB)
    inputs = {one.name: one.value for one in record.inputs}
    assert (inputs["lacking"], inputs["gap"], inputs["horizon"]) == (500 * MIB, 550 * MIB, 10)
    spared = {one.pod_uid: one.rejected_because for one in record.alternatives if one.pod_uid}
    assert spared == {"p1": "tier prod is protected", "b2": "the gap is closed"}


async def test_free_memory_is_deducted_and_the_record_says_so() -> None:
    scene = await opened(REREAD)
    await report(scene, 50 * MIB, free=500 * MIB)
    assert scene.records() == []
    await report(scene, 50 * MIB, free=100 * MIB)
    assert highs(scene) == {"b1": 3 * GIB - 440 * MIB}
    record = scene.records()[-1]
    inputs = {one.name: one.value for one in record.inputs}
    assert (inputs["free_memory"], inputs["lacking"], inputs["gap"]) == (100 * MIB, 400 * MIB, 440 * MIB)
    [shown] = [line for line in working_of(record) if line.startswith("lacking")]
    assert shown.replace("\u202f", " ") == (
        "lacking = reading x horizon - free_memory, not below 0 = 419 430 400 bytes, where free_memory is 104 857 600 "
        "bytes, horizon is 10 seconds, reading is 52 428 800 bytes/s"
    )


async def test_a_record_is_replayed() -> None:
    scene = await opened(REREAD)
    await report(scene, 50 * MIB)
    replay = scene.records()[-1].replay
    module, _, name = replay.function.partition(":")
    arguments = json.loads(json.dumps(replay.arguments))
    plan = getattr(importlib.import_module(module), name)(**arguments)
    assert [(step["uid"], step["memory"]["after_bytes"]) for step in plan["steps"]] == [("b1", 3 * GIB - 550 * MIB)]


async def test_an_older_agent_is_not_throttled_and_the_decision_says_so_once() -> None:
    scene = await opened(REREAD)
    for _ in range(3):
        await report(scene, 50 * MIB, caches={"b1": None})
    (record,) = scene.records()
    assert highs(scene) == {}
    assert {one.rejected_because for one in record.alternatives if one.pod_uid == "b1"} == {NOT_REPORTED}
    assert record.actions == ()


async def test_a_calm_report_of_an_agent_without_the_metric_writes_nothing() -> None:
    scene = await opened(REREAD)
    before = len(scene.database.published)
    await report(scene, None)
    await report(scene, 0.0)
    assert len(scene.database.published) == before


async def test_limits_return_to_the_original_and_the_record_says_complete() -> None:
    scene = await opened(REREAD)
    await report(scene, 50 * MIB)
    await observed(scene)
    for _ in range(60):
        await report(scene, 0.0, caches={"b1": 0, "b2": 0})
    assert highs(scene) == {}
    record = scene.records()[-1]
    assert (record.kind, record.subject, record.reason) == ("restore", "memory", "restore_complete")
    assert record.actions[0].memory is not None
    assert record.actions[0].memory.after_bytes is None
    assert scene.cache.node("n1").decisions == ()  # type: ignore[union-attr]


async def test_the_effect_is_measured_when_the_page_cache_had_time() -> None:
    scene = await opened(REREAD)
    await report(scene, 50 * MIB)
    await observed(scene)
    for _ in range(8):
        await report(scene, 0.0)
    (effect, *_) = scene.published(EffectMeasured)
    assert (effect.data.metric, effect.data.before, effect.data.relieved) == ("prod_memory_refaults", 50 * MIB, True)
    assert effect.data.seconds_to_measurement >= 5


async def test_a_limit_that_could_not_be_written_leaves_the_intent_and_another_pod_helps() -> None:
    scene = await opened(REREAD)
    await report(scene, 50 * MIB)
    await observed(scene, ObservedMemoryLimit(pod_uid="b1", memory_high_bytes=None, error="unwritable"))
    assert highs(scene) == {}
    await report(scene, 50 * MIB)
    assert set(highs(scene)) == {"b2"}
    spared = {one.pod_uid: one.rejected_because for one in scene.records()[-1].alternatives}
    assert spared["b1"] == "the node could not write its memory limit"


async def test_mode_observe_releases_memory_with_a_record_of_its_own() -> None:
    scene = await opened(REREAD)
    await report(scene, 50 * MIB)
    await scene.change(mode="observe")
    assert highs(scene) == {}
    record = scene.records()[-1]
    assert (record.subject, record.reason, record.unit) == ("memory", "restore_mode_changed", "bytes")


async def test_memory_is_throttled_before_pods_are_evicted_and_evicted_for_the_rest() -> None:
    scene = await opened(FULL)
    await scene.allow_evictions()
    action = {"memory": {"stepRatio": 0.25}, "eviction": {}, "disableScheduling": False}
    await scene.apply(AVOIDANCE_ACTION, "evict", action)
    await report(scene, None, used=6 * GIB + 512 * MIB)  # 550 MiB are lacking
    assert [(one.kind, one.subject) for one in scene.records()] == [("throttle", "memory")]
    await observed(scene)
    await report(scene, None, used=7 * GIB, caches={"b1": 0, "b2": 0})  # nothing is left to drop
    assert [one.kind for one in scene.records() if one.actions] == ["throttle", "evict"]


async def test_protection_is_declared_as_the_document_says() -> None:
    scene = await opened(REREAD)
    assert "memory_protection" not in scene.intents()[-1].model_dump(mode="json")
    memory = scene.policy().spec.memory.model_copy(update={"protection": "low"})
    await scene.change(memory=memory)
    assert scene.intents()[-1].memory_protection == "low"


@pytest.mark.parametrize("field", ["memory_throttles", "memory_protection"])
async def test_a_document_without_memory_is_as_before(field: str) -> None:
    scene = await opened(REREAD)
    assert field not in json.loads(scene.intents()[-1].model_dump_json())
