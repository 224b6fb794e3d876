"""Moves by what agents report of their pods: readiness, failures, and the rules of where a pod may be."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import httpx2
import pytest
from move_scenes import MoveScene, move

from slackwater.model.nodes import PodDetail
from slackwater.model.placement_rules import LabelOperator, LabelRequirement, NodeTaint, PlacementRules, PodToleration
from slackwater.model.pods import PodStatus

JOBS = "/v1/podmigrationjobs"
CRASHING = PodStatus(ready=False, reason="CrashLoopBackOff")


def scene_that_reports(*details: PodDetail) -> MoveScene:
    scene = MoveScene()
    for node in scene.nodes.values():
        node.facts["reports"] = tuple(map(str, details or PodDetail))
    return scene


async def asked(client: httpx2.AsyncClient, name: str, pod: str, **spec: Any) -> None:
    made = await client.put(f"{JOBS}/{name}", json=move(name, pod, **spec))
    assert made.status_code == 201, made.text


async def status(client: httpx2.AsyncClient, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"{JOBS}/{name}")).json()["status"]
    return found


async def test_a_move_succeeds_when_the_new_pod_is_ready() -> None:
    scene = scene_that_reports()
    scene.status_of_new = CRASHING
    async with scene.served() as client:
        await asked(client, "first", "web-0")
        await scene.turn(12)
        (new,) = scene.nodes["n2"].pods
        during = await status(client, "first")
        assert (during["phase"], during["replacement"]) == ("Running", new)
        said = f"shop/{new} on n2 is not ready: CrashLoopBackOff"
        (ready,) = [each for each in during["conditions"] if each["type"] == "BoundPodReady"]
        assert (ready["status"], ready["reason"], ready["message"]) == ("False", "WaitForBoundPodReady", said)
        scene.change("n2", new, status=None)
        await scene.turn(3)
        after = await status(client, "first")
        assert (after["phase"], after["outcome"], after["message"]) == ("Succeeded", "moved", "")
    records = [each.record for each in scene.published("decision.recorded") if each.record.kind == "migration"]
    for record in records:
        module, _, name = record.replay.function.partition(":")
        assert getattr(import_module(module), name)(**record.replay.arguments) == record.result, record


@pytest.mark.parametrize("reports", [True, False])
async def test_a_timeout_says_that_the_new_pod_is_not_ready(*, reports: bool) -> None:
    """An agent that does not report readiness is believed that a pod it runs is ready."""
    scene = scene_that_reports() if reports else scene_that_reports(PodDetail.RESTARTS)
    scene.status_of_new = CRASHING
    async with scene.served() as client:
        await asked(client, "first", "web-0", ttl="20s")
        await scene.turn(30)
        after = await status(client, "first")
    if reports:
        said = "on n2 is not ready: CrashLoopBackOff"
        assert (after["phase"], after["reason"], after["outcome"]) == ("Failed", "Timeout", "replacement_pending")
        assert said in after["message"]
    else:
        assert (after["phase"], after["outcome"]) == ("Succeeded", "moved")


async def test_pods_that_are_not_ready_count_as_unavailable() -> None:
    scene = scene_that_reports()
    async with scene.served(maxUnavailablePerWorkload=1, maxMigratingPerWorkload=2) as client:
        scene.change("n1", "web-2", status=CRASHING)
        await scene.turn(2)
        await asked(client, "first", "web-0")
        await scene.turn(10)
        held = (await status(client, "first"))["heldBy"]
        assert (held["filter"], held["count"], held["limit"]) == ("workload_unavailable", 1, 1)
        scene.change("n1", "web-2", status=None)
        await scene.turn(12)
        assert (await status(client, "first"))["phase"] == "Succeeded"


async def test_a_failed_pod_is_removed_though_its_workload_can_spare_no_replica() -> None:
    scene = scene_that_reports()
    async with scene.served() as client:
        for uid in ("web-1", "web-2"):
            scene.nodes["n0"].pods.pop(uid, None)
            scene.nodes["n1"].pods.pop(uid, None)
        dead = replace(scene.nodes["n0"].pods["web-0"], uid="dead", name="dead", status=PodStatus(phase="Failed"))
        scene.nodes["n0"].failed["dead"] = dead
        await scene.turn(2)
        await asked(client, "first", "dead")
        await scene.turn(12)
        after = await status(client, "first")
    assert (after["phase"], after["outcome"]) == ("Succeeded", "evicted")
    assert scene.evicted == ["dead"]
    assert "web-0" in scene.nodes["n0"].pods


ON_ZONE_B = PlacementRules(affinity=((LabelRequirement("zone", LabelOperator.IN, ("b",)),),))


@pytest.mark.parametrize(
    ("rules", "target"),
    [(None, "n1"), (PlacementRules(tolerations=(PodToleration("k"),)), "n2"), (ON_ZONE_B, "n1")],
    ids=["taint", "toleration", "affinity"],
)
async def test_the_reservation_is_where_the_rules_allow_the_pod(rules: PlacementRules | None, target: str) -> None:
    """n2 has the most headroom, and a taint."""
    scene = scene_that_reports()
    scene.nodes["n1"].facts["labels"] = {"zone": "b"}
    scene.nodes["n2"].facts["taints"] = (NodeTaint("k"),)
    async with scene.served() as client:
        scene.change("n0", "web-0", rules=rules)
        await scene.turn(2)
        await asked(client, "first", "web-0")
        await scene.turn(12)
        after = await status(client, "first")
    assert (after["phase"], after["node"]) == ("Succeeded", target)
