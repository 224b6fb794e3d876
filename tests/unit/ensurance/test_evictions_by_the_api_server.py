"""Where the API server evicts, an eviction is credited once its pod terminates: never before, and not if it waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from ensurance_scene import described, reported
from guard_documents import DocumentScene

from slackwater.ensurance.usecases.node_cache import ANSWER_SECONDS
from slackwater.events.eviction_completed import EvictionOutcome
from slackwater.model.nodes import API_SERVER, EVICTIONS_BY, PodDetail
from slackwater.model.pods import PodStatus
from slackwater.waterline.execution.executor import UNANSWERED
from slackwater.waterline.execution.plan import AWAITED

CROWD = {"b1": 300, "b2": 250, "b3": 240, "b4": 230}
"""At 0.2 the gap is 275: each pair closes it, and b1 alone."""


class ClusterScene(DocumentScene):
    """n1 is a node of a cluster. `terminating` are the pods that its reports show so."""

    terminating: frozenset[str] = frozenset()

    async def begin(self, **autonomy: Any) -> None:
        await self.book.load()
        event = described("n1", at=self.clock.now())
        facts = replace(event.data.facts, annotations={EVICTIONS_BY: API_SERVER}, reports=(PodDetail.READINESS,))
        await self.describe(event.model_copy(update={"data": event.data.model_copy(update={"facts": facts})}))
        await self.allow_evictions(**autonomy)

    async def sample(self, pressure: float, batch: Mapping[str, int] = CROWD, seconds: float = 1.0) -> None:
        """Some time passes, then n1 reports."""
        await self.clock.advance(seconds)
        self.sequence += 1
        event = reported(self.sequence, at=self.clock.now(), pressure=pressure, batch=dict(batch))
        leaving = PodStatus(terminating=True)
        pods = tuple(
            replace(use, pod=replace(use.pod, status=leaving)) if use.pod.uid in self.terminating else use
            for use in event.data.pods
        )
        await self.guard(event.model_copy(update={"data": event.data.model_copy(update={"pods": pods})}))

    def asked(self) -> list[str]:
        return [item.pod_uid for item in self.intents()[-1].evictions]

    def spared(self) -> dict[str, str]:
        return {one.what: one.rejected_because for one in self.records()[-1].alternatives}

    def counted(self) -> int:
        return len(self.standings["default"].state.evictions_at)


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
    await scene.book.load()
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
