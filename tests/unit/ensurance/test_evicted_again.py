"""Pods restarted only to be evicted again: counted by workload and pool, for an hour, shared by all replicas."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ensurance_scene import reported
from guard_documents import DocumentScene
from hypothesis import given
from hypothesis import strategies as st

from slackwater.ensurance.domain.pools import REMEMBERED, REMEMBERED_AT_MOST, EvictedPod, PoolStanding
from slackwater.events.eviction_completed import EvictionOutcome
from slackwater.waterline.policies.autonomy import AutonomyPolicy

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
POLICY = AutonomyPolicy()
BEGAN, AGAIN = "slackwater_ensurance_evictions_total", "slackwater_ensurance_evictions_repeated_total"


def pod(workload: str, started: datetime) -> EvictedPod:
    return EvictedPod(workload, started)


def lost(at: datetime, *workloads: str) -> PoolStanding:
    return PoolStanding("edge").after(POLICY, at, [pod(each, at - timedelta(days=1)) for each in workloads], ())


def test_a_pod_that_began_after_its_workload_lost_one_is_evicted_again() -> None:
    again, old, other = (pod("w", NOON + timedelta(minutes=1)), pod("w", NOON), pod("v", NOON + timedelta(minutes=1)))
    assert lost(NOON, "w").repeated(NOON + timedelta(minutes=5), [again, old, other]) == (again,)


def test_after_an_hour_it_is_forgotten() -> None:
    standing, again = lost(NOON, "w"), pod("w", NOON + timedelta(seconds=1))
    assert standing.repeated(NOON + REMEMBERED - timedelta(seconds=1), [again]) == (again,)
    assert standing.repeated(NOON + REMEMBERED, [again]) == ()
    assert standing.after(POLICY, NOON + REMEMBERED, [], (True,)).losses == ()


def test_the_last_loss_counts() -> None:
    later = NOON + timedelta(minutes=10)
    standing = lost(NOON, "w").after(POLICY, later, [pod("w", NOON)], ())
    assert [one.at for one in standing.losses] == [later]
    assert standing.repeated(later + timedelta(minutes=5), [pod("w", NOON + timedelta(minutes=5))]) == ()


@given(st.lists(st.lists(st.sampled_from(["", *(f"w{number}" for number in range(9))]), max_size=6), max_size=12))
def test_each_workload_is_remembered_once_and_one_without_a_name_never(cycles: list[list[str]]) -> None:
    standing, now = PoolStanding("edge"), NOON
    for names in cycles:
        now += timedelta(minutes=1)
        standing = standing.after(POLICY, now, [pod(name, NOON) for name in names], ())
    names = [one.workload for one in standing.losses]
    assert sorted(names) == sorted({name for cycle in cycles for name in cycle if name})


def test_no_more_are_remembered_than_a_row_should_hold() -> None:
    standing = lost(NOON, *(f"w{number:04}" for number in range(2 * REMEMBERED_AT_MOST)))
    assert len(standing.losses) == REMEMBERED_AT_MOST


async def test_a_workload_that_comes_back_and_is_evicted_again_is_counted_after_a_restart_too() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    await scene.report(0.2, batch={"b1": 300})
    assert (scene.metric(BEGAN, pool="default"), scene.metric(AGAIN, pool="default")) == (1, 0)
    await scene.ended(EvictionOutcome.TERMINATED)
    await scene.report(0.0, batch={})
    scene.start()
    await scene.cache.load()
    await scene.clock.advance(130)
    scene.sequence += 1
    event = reported(scene.sequence, at=scene.clock.now(), pressure=0.2, batch={"b1": 300})
    prod, batch = event.data.pods
    young = replace(batch.pod, uid="b1-again", started_at=scene.clock.now() - timedelta(seconds=60))
    pods = (prod, replace(batch, pod=young))
    await scene.guard(event.model_copy(update={"data": event.data.model_copy(update={"pods": pods})}))
    assert [item.pod_uid for item in scene.intents()[-1].evictions] == ["b1-again"]
    assert (scene.metric(BEGAN, pool="default"), scene.metric(AGAIN, pool="default")) == (1, 1)


async def test_effects_are_counted_by_what_was_done() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    counted = {"kind": "evict", "result": "relieved"}
    assert scene.metric("slackwater_ensurance_effects_total", **counted) == 0
    await scene.report(0.2, batch={"b1": 300})
    await scene.ended(EvictionOutcome.TERMINATED)
    await scene.report(0.0, batch={})
    assert scene.metric("slackwater_ensurance_effects_total", **counted) == 1
