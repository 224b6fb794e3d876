"""Where the API server evicts, an eviction is credited once its pod terminates: never before, and not if it waits."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_scene import CROWD, ClusterScene
from guard_documents import DocumentScene

from slackwater.ensurance.domain.pools import ANSWER_SECONDS
from slackwater.events.eviction_completed import EvictionOutcome
from slackwater.waterline.execution.executor import UNANSWERED
from slackwater.waterline.execution.plan import AWAITED


async def scene_of_a_cluster(**autonomy: Any) -> ClusterScene:
    scene = ClusterScene()
    await scene.begin(**autonomy)
    await scene.sample(0.2)
    assert scene.asked() == ["b1"]
    return scene


async def test_a_refused_eviction_is_credited_nothing_and_the_next_candidate_is_taken_at_once() -> None:
    scene = await scene_of_a_cluster()
    assert [item.waits for item in scene.intents()[-1].evictions] == [False]
    await scene.ended(EvictionOutcome.REFUSED)
    await scene.sample(0.2)
    assert scene.asked() == ["b2", "b3"]
    assert scene.spared()["name-b1"] == "its eviction was refused"


async def test_one_that_is_not_accepted_in_time_is_withdrawn_and_the_next_candidates_are_taken() -> None:
    scene = await scene_of_a_cluster()
    await scene.sample(0.2, seconds=ANSWER_SECONDS - 1)
    assert scene.asked() == ["b1"], "an answer may be on its way"
    await scene.sample(0.2)
    assert scene.asked() == ["b2", "b3"]
    assert scene.spared()["name-b1"] == UNANSWERED


async def test_an_eviction_that_is_not_accepted_closes_no_gap_and_one_that_is_does() -> None:
    scene = await scene_of_a_cluster()
    await scene.sample(0.3)  # the gap grows to 471
    record = scene.records()[-1]
    assert (scene.asked(), record.result) == (["b1", "b2"], 250)
    assert record.remaining_because == AWAITED
    assert scene.spared()["name-b3"] == AWAITED
    scene.terminating = frozenset({"b1", "b2"})
    for _ in range(3):
        await scene.sample(0.3, seconds=ANSWER_SECONDS)
    assert scene.asked() == ["b1", "b2"], "accepted: credited as long as it may take"


async def test_a_late_acceptance_is_credited_although_it_was_given_up() -> None:
    scene = await scene_of_a_cluster()
    scene.terminating = frozenset({"b1"})
    await scene.sample(0.2, {"b1": 300}, seconds=ANSWER_SECONDS)
    await scene.sample(0.2)
    assert scene.asked() == ["b1"]
    late = await scene_of_a_cluster()
    await late.sample(0.2, {"b1": 300}, seconds=ANSWER_SECONDS)
    assert late.asked() == []
    late.terminating = frozenset({"b1"})
    await late.sample(0.2)
    assert late.asked() == [], "b1 is on its way out, and its release is enough"


@pytest.mark.parametrize("outcome", [EvictionOutcome.REFUSED, EvictionOutcome.EXPIRED])
async def test_evictions_that_end_no_pod_do_not_count_for_the_pool(outcome: EvictionOutcome) -> None:
    scene = await scene_of_a_cluster(evictionsPerHour=3)
    assert scene.counted() == 1
    await scene.ended(outcome)
    assert scene.counted() == 0
    await scene.sample(0.2)
    assert scene.counted() == 2
    await scene.sample(0.2, seconds=ANSWER_SECONDS)
    assert (scene.asked(), scene.counted()) == (["b4"], 1), "the two unanswered ones were given up"
    assert scene.metric("slackwater_ensurance_stepped_back_pools") == 0


async def test_a_restart_keeps_what_awaits_its_answer() -> None:
    scene = await scene_of_a_cluster()
    scene.start()
    await scene.cache.load()
    await scene.sample(0.2)
    assert scene.asked() == ["b1"]
    await scene.sample(0.2, seconds=ANSWER_SECONDS)
    assert scene.asked() == ["b2", "b3"]


async def test_an_agent_that_evicts_by_itself_begins_what_it_is_asked_to() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    await scene.report(0.2, batch=CROWD)
    await scene.clock.advance(ANSWER_SECONDS * 2)
    await scene.report(0.2, batch=CROWD)
    assert [item.pod_uid for item in scene.intents()[-1].evictions] == ["b1"]
