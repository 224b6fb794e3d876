"""Disruption budgets of the cluster hold moves: which budget, how many of how many, with the rounding of Kubernetes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from move_scenes import MoveScene, move

from slackwater.events.disruption_budget_changed import DisruptionBudgetChanged
from slackwater.migration.domain.disruption_budgets import CLOCKS_S, UNCOUNTED_S, budgets_of, taken_pods
from slackwater.migration.domain.stored_jobs import EvictionAnswer, MovedPod, StoredJob, TakenPod
from slackwater.migration.usecases.budgets_read import BudgetsRead, seen_budget
from slackwater.model.nodes import PodDetail
from slackwater.model.pods import PodStatus
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import MigrationJob, MigrationPhase, MigrationStep, MoveOutcome

NOW = datetime(2026, 1, 5, tzinfo=UTC)
APP = {"matchLabels": {"app": "web"}}


def budget(name: str, selector: dict[str, Any] | None = None, **more: Any) -> DisruptionBudgetChanged:
    counts = {"expected": 7, "healthy": 7, "allowed": 7} | more
    wanted = APP if selector is None else selector
    return DisruptionBudgetChanged(namespace="shop", name=name, selector=wanted, changed_at=NOW, **counts)


@pytest.mark.parametrize(
    ("bounds", "allowed"),
    [
        ({"min_available": "5"}, 2),
        ({"min_available": "50%"}, 3),  # 3.5 pods are needed: rounded up to 4
        ({"max_unavailable": "1"}, 1),
        ({"max_unavailable": "30%"}, 3),  # 2.1 may be away: rounded up to 3
        ({"max_unavailable": "30%", "healthy": 5}, 1),
        ({"max_unavailable": "100%", "allowed": 2}, 2),  # the API server counts what has begun
        ({"min_available": "0", "healthy": 0}, 0),
        ({"min_available": "half"}, 7),  # what cannot be read is left to the API server
        ({"min_available": "half", "allowed": 1}, 1),
    ],
)
def test_counts_and_percents_are_rounded_as_by_the_api_server(bounds: dict[str, Any], allowed: int) -> None:
    assert seen_budget(budget("web", **bounds)).budget.allowed == allowed


def test_a_budget_holds_for_the_pods_that_it_selects_until_it_is_gone() -> None:
    read = BudgetsRead()
    some = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}
    for each in (budget("web"), budget("all", {}), budget("some", some), budget("broken", {"matchLabels": 3})):
        read.receive(each)
    labels = {"app": "api"}
    assert budgets_of(read.by_namespace, "shop", labels) == ("shop/all", "shop/broken", "shop/some")
    assert budgets_of(read.by_namespace, "other", labels) == ()
    read.receive(budget("all", {}, gone=True))
    assert budgets_of(read.by_namespace, "shop", {}) == ("shop/broken",)


def moved(name: str, **more: Any) -> StoredJob:
    job = MigrationJob(f"{name}-1", f"pod-of-{name}", "n0", 0.0)
    pod = MovedPod(job.pod, name, "shop", "shop/web", labels={"app": "web"})
    return StoredJob(job, JobRequest(name), pod, **more)


def test_a_budget_does_not_count_what_moves_have_ended_since_its_pods_were_counted() -> None:
    counted_s = NOW.timestamp()
    seen = seen_budget(budget("web", min_available="5"))
    pods = [
        TakenPod("before", "shop", {"app": "web"}, counted_s - CLOCKS_S),
        TakenPod("since", "shop", {"app": "web"}, counted_s - CLOCKS_S + 0.1),  # clocks may differ by that
        TakenPod("later", "shop", {"app": "web"}, counted_s + 9),
        TakenPod("other app", "shop", {"app": "api"}, counted_s + 9),
        TakenPod("other namespace", "jobs", {"app": "web"}, counted_s + 9),
    ]
    now_s = counted_s + 10
    assert [seen.without(pods[:count], now_s).allowed for count in range(6)] == [2, 2, 1, 0, 0, 0]
    assert seen.without(pods * 9, now_s).allowed == 0, "never below zero"
    assert seen.without(pods[:1], counted_s - 200).allowed == 1, "a clock that is behind does not know what came first"


def test_ended_pods_are_kept_once_each_until_a_budget_has_counted_them() -> None:
    now_s = 1000.0
    job = moved("first").job
    ended = replace(job, step=MigrationStep.ENDED, phase=MigrationPhase.FAILED, outcome=MoveOutcome.REPLACEMENT_PENDING)
    gone = moved("first", gone_s=now_s)
    withdrawn = replace(moved("second", ended_s=now_s), job=replace(ended, id="second-1", pod="pod-of-second"))
    kept_pod = replace(ended, outcome=MoveOutcome.OLD_POD_RUNS, id="third-1", pod="pod-of-third")
    spared = replace(moved("third", ended_s=now_s), job=kept_pod)
    broken = moved("fourth", gone_s=now_s)
    broken = replace(broken, pod=replace(broken.pod, failed=True))  # it was not healthy
    after = {stored.name: stored for stored in (gone, withdrawn, spared, broken)}
    taken = taken_pods((), {"first": moved("first")}, after, {}, now_s)
    assert [(pod.uid, pod.gone_s) for pod in taken] == [("pod-of-first", now_s), ("pod-of-second", now_s)]
    assert taken_pods(taken, after, after, {}, now_s + UNCOUNTED_S - 1) == taken
    assert taken_pods(taken, {}, after, {}, now_s + 1) == taken, "a pod is taken once"
    assert taken_pods(taken, after, after, {}, now_s + UNCOUNTED_S) == ()
    said = {gone.eviction_key: EvictionAnswer(gone.job.node, gone.eviction_id, "terminated", "", now_s + 200.0, now_s)}
    late = taken_pods((), {"first": moved("first")}, {"first": gone}, said, now_s)
    assert [pod.gone_s for pod in late] == [now_s + 200.0], "the clock of this service was behind that of the agent"
    assert taken_pods(late, after, {"first": gone}, {}, now_s + 100.0) == late


async def test_a_move_waits_for_its_disruption_budget_and_says_so() -> None:
    scene = MoveScene()
    async with scene.served(maxMigratingPerWorkload=2, maxUnavailablePerWorkload=2) as client:
        for uid, node in (("web-0", "n0"), ("web-1", "n0"), ("web-2", "n1")):
            scene.change(node, uid, labels={**scene.nodes[node].pods[uid].labels, "app": "web"})
        await scene.publish(budget("web", min_available="2", expected=3, healthy=3, allowed=1))
        for name, pod in (("first", "web-0"), ("second", "web-1")):
            made = await client.put(f"/v1/podmigrationjobs/{name}", json=move(name, pod))
            assert made.status_code == 201, made.text
        await scene.turn(3)
        shown = (await client.get("/v1/podmigrationjobs/second")).json()["status"]
        assert shown["heldBy"] | {"since": ""} == {
            "filter": "disruption_budget", "scope": "shop/web", "count": 1, "limit": 1, "since": "",
        }  # fmt: skip
        admitted = next(each for each in shown["conditions"] if each["type"] == "Admitted")
        assert admitted["message"] == "held by disruption_budget of shop/web: 1 of 1"
        await scene.publish(budget("web", min_available="2", expected=3, healthy=3, allowed=1, gone=True))
        await scene.turn(9)
        assert (await client.get("/v1/podmigrationjobs/second")).json()["status"]["outcome"] == "moved"
    records = [each.record for each in scene.published("decision.recorded") if each.record.kind == "migration"]
    assert any(each.value == "disruption_budget" for record in records for each in record.inputs)
    for record in records:
        module, _, name = record.replay.function.partition(":")
        assert getattr(import_module(module), name)(**record.replay.arguments) == record.result, record


@pytest.mark.parametrize("always", [False, True])
async def test_a_pod_of_two_budgets_is_refused_at_once_and_the_next_one_goes(*, always: bool) -> None:
    scene = MoveScene()
    async with scene.served(maxMigratingPerWorkload=2, maxUnavailablePerWorkload=2) as client:
        for uid, node in (("web-0", "n0"), ("web-1", "n0"), ("web-2", "n1")):
            app = "web" if uid == "web-0" else "api"
            scene.change(node, uid, labels={**scene.nodes[node].pods[uid].labels, "app": app})
        await scene.publish(budget("web", max_unavailable="3", unready_always=always))
        await scene.publish(budget("all", {}, max_unavailable="3", unready_always=always))
        for name, pod in (("first", "web-0"), ("second", "web-1")):
            made = await client.put(f"/v1/podmigrationjobs/{name}", json=move(name, pod))
            assert made.status_code == 201, made.text
        await scene.turn(3)
        first = (await client.get("/v1/podmigrationjobs/first")).json()["status"]
        assert (first["phase"], first["reason"], first["outcome"]) == ("Failed", "ForbiddenMigratePod", "old_pod_runs")
        assert first["message"] == "shop/all and shop/web select its pod: the API server evicts no pod of two budgets"
        await scene.turn(6)
        assert scene.evicted == ["web-1"], "it is in one budget"


@pytest.mark.parametrize("phase", ["Pending", "Failed"])
async def test_the_api_server_asks_no_budget_for_a_pod_that_has_not_begun_or_has_failed(phase: str) -> None:
    scene = MoveScene()
    async with scene.served(maxMigratingPerWorkload=2, maxUnavailablePerWorkload=2) as client:
        pods = scene.nodes["n0"].pods
        labels = {**pods["web-0"].labels, "app": "web"}
        pods["web-0"] = replace(pods["web-0"], labels=labels, status=PodStatus(ready=False, phase=phase))
        if phase == "Failed":
            scene.nodes["n0"].failed["web-0"] = pods.pop("web-0")
        for name, selector in (("web", None), ("all", {})):
            await scene.publish(budget(name, selector, max_unavailable="3"))
        await scene.turn(2)
        made = await client.put("/v1/podmigrationjobs/first", json=move("first", "web-0"))
        assert made.status_code == 201, made.text
        await scene.turn(6)
        assert scene.evicted == ["web-0"]


CRASHING = PodStatus(ready=False, reason="CrashLoopBackOff")
PENDING = PodStatus(ready=False, phase="Pending", reason="ImagePullBackOff")


@pytest.mark.parametrize(
    ("pod_status", "healthy", "always", "goes"),
    [
        (CRASHING, 2, False, True),
        (CRASHING, 1, False, False),
        (CRASHING, 1, True, True),
        (PENDING, 1, False, True),  # the API server asks no budget for a pod that has not begun
        (PENDING, 0, False, True),
    ],
)
async def test_an_unready_pod_goes_and_takes_no_ready_pods_place(
    *, pod_status: PodStatus, healthy: int, always: bool, goes: bool
) -> None:
    scene = MoveScene()
    for each in scene.nodes.values():
        each.facts["reports"] = tuple(map(str, PodDetail))
    async with scene.served(maxMigratingPerWorkload=2, maxUnavailablePerWorkload=2) as client:
        for uid, node in (("web-0", "n0"), ("web-1", "n0"), ("web-2", "n1")):
            scene.change(node, uid, labels={**scene.nodes[node].pods[uid].labels, "app": "web"})
        web = scene.nodes["n0"].pods
        web["web-0"] = replace(web["web-0"], status=pod_status)
        counts = {"expected": 3, "healthy": healthy, "allowed": 0, "unready_always": always}
        await scene.publish(budget("web", min_available="2", **counts))
        for name, pod in (("unready", "web-0"), ("ready", "web-1")):
            assert (await client.put(f"/v1/podmigrationjobs/{name}", json=move(name, pod))).status_code == 201
        await scene.turn(9)
        unready, ready = [
            (await client.get(f"/v1/podmigrationjobs/{name}")).json()["status"] for name in ("unready", "ready")
        ]
    assert (unready.get("outcome") == "moved") is goes, unready
    held = [status["heldBy"]["filter"] for status in ([ready] if goes else [ready, unready])]
    assert set(held) == {"disruption_budget"}
