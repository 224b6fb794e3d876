"""A pool steps back and forward again: published once each, over REST, and recomputable from its JSON."""

from __future__ import annotations

import importlib
import json

import httpx2
import pytest
from guard_documents import DocumentScene

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.edge.pools import pools_router
from slackwater.ensurance.usecases.pool_autonomy import PoolAutonomy
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.eviction_completed import EvictionOutcome
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.runtime.http import build_app
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

CROWD = {"b1": 300, "b2": 200, "b3": 100}


class PoolScene(DocumentScene):
    """With the round that looks at pools."""

    def start(self) -> None:
        super().start()
        self.look = PoolAutonomy(self.cache, self.clock, self.guard._meter)

    def steps(self) -> list[DecisionRecord]:
        return [one for one in self.records() if one.kind == "autonomy"]

    async def pools(self) -> list[dict[str, object]]:
        async def no_checks() -> list[Check]:
            return []

        app = build_app([pools_router(self.look)], no_checks, HttpSettings.local())
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
            return list((await client.get("/v1/pools")).json()["items"])


async def stepped_back(**autonomy: object) -> PoolScene:
    scene = PoolScene()
    await scene.open()
    await scene.allow_evictions(**{"evictionsPerHour": 1, "holdSeconds": 600} | autonomy)
    await scene.report(0.3, batch=CROWD)
    return scene


def told(record: DecisionRecord) -> tuple[str, str, str | None, str]:
    return record.reason, record.subject, record.mode, record.alternatives[0].rejected_because


async def test_a_step_back_is_a_decision_of_its_own_caused_by_the_report_that_led_to_it() -> None:
    scene = await stepped_back()
    (record,) = scene.steps()
    why = "2 evictions within an hour; allowed: 1"
    assert told(record) == ("autonomy_stepped_back", "pool/default", "throttle", why)
    assert (record.node, record.result, record.unit) == ("n1", 2, "evictions")
    assert record.trigger_event_id == scene.records()[0].trigger_event_id
    for _ in range(3):
        await scene.report(0.3, batch=CROWD)
    assert len(scene.steps()) == 1, "published once"
    assert scene.metric("slackwater_ensurance_decisions_total", kind="autonomy", reason="autonomy_stepped_back") == 1


async def test_it_comes_forward_when_its_hold_is_over_and_the_guard_is_content() -> None:
    scene = await stepped_back()
    assert await scene.look() == 0
    await scene.clock.advance(601)
    assert await scene.look() == 1, "two within the hour are still too many: it steps back anew"
    await scene.clock.advance(3600)
    assert await scene.look() == 1
    assert await scene.look() == 0
    assert [told(one)[0] for one in scene.steps()] == [
        "autonomy_stepped_back", "autonomy_stepped_back", "autonomy_reinstated",
    ]  # fmt: skip
    assert told(scene.steps()[-1])[2:] == ("evict", "600 s have passed")
    scene.start()
    await scene.cache.load()
    assert await scene.look() == 0, "a restarted replica publishes nothing twice"


async def test_a_changed_autonomy_starts_the_guards_anew() -> None:
    scene = await stepped_back()
    await scene.apply(AUTONOMY, "default", {"mode": "evict", "evictionsPerHour": 5})
    await scene.look()
    assert told(scene.steps()[-1])[::3] == (
        "autonomy_reinstated", "its Autonomy was changed: the guards start anew",
    )  # fmt: skip


async def test_missed_reliefs_are_the_other_guard() -> None:
    scene = await stepped_back(evictionsPerHour=50, reliefsMissed=1)
    assert scene.steps() == []
    for _ in range(2):
        await scene.ended(EvictionOutcome.TERMINATED)
    await scene.report(0.3, batch={"b3": 100})
    (record,) = scene.steps()
    assert (record.terms[0].name, record.result) == ("in a row without relief", 1)


@pytest.mark.parametrize("outcome", [EvictionOutcome.REFUSED, EvictionOutcome.EXPIRED])
async def test_what_was_refused_brought_nothing_and_says_nothing_about_relief(outcome: EvictionOutcome) -> None:
    scene = await stepped_back(evictionsPerHour=50, reliefsMissed=1)
    for _ in range(2):
        await scene.ended(outcome)
    await scene.report(0.3, batch={"b3": 100})
    assert (scene.steps(), scene.published(EffectMeasured)) == ([], [])


@pytest.mark.parametrize("held_first", [True, False])
async def test_a_decision_that_a_budget_held_in_part_counts_by_its_relief_alone(held_first: bool) -> None:
    """Less was released than was decided: without relief that says nothing about evictions."""
    outcomes = [EvictionOutcome.TERMINATED, EvictionOutcome.EXPIRED]
    for idle, relieved in ((0.3, False), (0.0, True)):
        scene = await stepped_back(evictionsPerHour=50, reliefsMissed=1)
        for outcome in reversed(outcomes) if held_first else outcomes:
            await scene.ended(outcome)
        await scene.report(idle, batch={"b3": 100})
        (effect,) = scene.published(EffectMeasured)
        assert (effect.data.relieved, scene.steps()) == (relieved, [])
        (pool,) = await scene.pools()
        assert pool["missed_in_a_row"] == 0


async def test_an_evicted_pod_is_measured_although_another_of_the_same_decision_was_refused() -> None:
    for outcomes in (
        (EvictionOutcome.TERMINATED, EvictionOutcome.REFUSED),
        (EvictionOutcome.REFUSED, EvictionOutcome.TERMINATED),
    ):
        scene = await stepped_back(evictionsPerHour=50)
        for outcome in outcomes:
            await scene.ended(outcome)
        await scene.report(0.0, batch={"b3": 100})
        (effect,) = scene.published(EffectMeasured)
        assert effect.data.relieved


async def test_every_step_is_repeated_from_its_json() -> None:
    scene = await stepped_back()
    await scene.clock.advance(5000)
    await scene.look()
    for record in scene.steps():
        module, _, name = record.replay.function.partition(":")
        made = getattr(importlib.import_module(module), name)(**json.loads(json.dumps(record.replay.arguments)))
        assert made["mode"] == record.mode
        assert made["because"] in ("", record.alternatives[0].rejected_because)


async def test_rest_has_the_mode_of_each_pool_and_its_end() -> None:
    scene = await stepped_back()
    (pool,) = await scene.pools()
    assert (pool["pool"], pool["granted"], pool["mode"]) == ("default", "evict", "throttle")
    assert (pool["evictions_within_hour"], pool["evictions_per_hour"]) == (2, 1)
    assert pool["because"] == "2 evictions within an hour; allowed: 1"
    assert pool["stepped_back_at"] is not None
    assert str(pool["stepped_back_until"]) > str(pool["stepped_back_at"])
    await scene.apply(AUTONOMY, "gold", {"mode": "observe", "nodePool": "gold pool"})
    assert [(one["pool"], one["mode"]) for one in await scene.pools()] == [
        ("default", "throttle"), ("gold pool", "observe"),
    ]  # fmt: skip


async def test_a_replica_without_a_node_of_the_pool_leaves_it_to_the_others() -> None:
    scene = await stepped_back()
    await scene.clock.advance(5000)
    for node in scene.cache.nodes():
        del scene.cache._nodes[node.node]
    assert await scene.look() == 0
    assert len(scene.steps()) == 1
