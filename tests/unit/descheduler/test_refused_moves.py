"""Moves whose jobs ended with the pod where it was: refused, given up, aborted."""

from __future__ import annotations

import pytest
from descheduler_scenes import SPEC, client_of, hot_scene, job_ended


@pytest.mark.parametrize(
    ("phase", "reason"), [("Failed", "ForbiddenMigratePod"), ("Failed", "Timeout"), ("Aborted", "Aborted")]
)
async def test_a_refused_move_relieves_no_node_and_its_pod_is_left_for_the_rest(phase: str, reason: str) -> None:
    scene = await hot_scene()
    async with scene.running({**SPEC, "rest": {"restSeconds": 25}}) as service, client_of(service) as client:
        await scene.add_nodes("n0", "n1")
        (first,) = await scene.cycles(1, moves=False)
        for move in first:
            await scene.publish(job_ended(move, scene.scene.clock.now(), phase, "old_pod_runs", reason))
        held = (await client.get("/v1/descheduling/plans/p")).json()["refusals"]
        (others,) = await scene.cycles(1, moves=False)
        for move in others:
            await scene.publish(job_ended(move, scene.scene.clock.now(), phase, "old_pod_runs", reason))
        (none, *later) = await scene.cycles(4, moves=False)
    assert held == {"move_failed": 2}
    assert [move.pod_uid for move in others] == [uid for uid in scene.places if uid not in {m.pod_uid for m in first}]
    assert not none, "all four rest"
    assert {move.pod_uid for moves in later for move in moves} == {move.pod_uid for move in first}


async def test_a_move_that_is_under_way_or_has_begun_to_disturb_its_pod_stays_pending() -> None:
    scene = await hot_scene()
    async with scene.running():
        await scene.add_nodes("n0", "n1")
        (first,) = await scene.cycles(1, moves=False)
        await scene.publish(job_ended(first[0], scene.scene.clock.now(), "Running", "", "Evicting"))
        await scene.publish(job_ended(first[1], scene.scene.clock.now(), "Failed", "replacement_pending", "Timeout"))
        assert await scene.cycles(2, moves=False) == [[], []]
