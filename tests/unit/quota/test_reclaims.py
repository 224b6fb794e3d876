"""Reclaims evict through ensurance's intents, as far as the Autonomy of the pool allows, and reports end them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from quota_scenes import TEAMS, QuotaScene, claim, client_of, document
from tests.support.reports import usage

from slackwater.ensurance.service import build as build_ensurance
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.measures import PodUsage
from slackwater.events.usage_reported import UsageReported
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.quota.domain.finding_replay import replay_observation
from slackwater.quota.domain.reclaim_grant import REFUSED_S, UNANSWERED_S, ReclaimGrant, answered, asked

PATH_A, PATH_B = "/v1/quotas/team-a/claims", "/v1/quotas/team-b/claims"


@dataclass
class Node:
    """An agent that carries out evictions in the second after it learns of them, unless it is deaf."""

    scene: QuotaScene
    name: str = "n0"
    pods: dict[str, Pod] = field(default_factory=dict)
    sequence: int = 0
    is_deaf: bool = False
    evicted: list[str] = field(default_factory=list)

    def run(self, uid: str, workload: str, cpu_milli: int, **labels: str) -> None:
        now = self.scene.scene.clock.now()
        self.pods[uid] = Pod(
            uid, uid, "default", workload, Tier.PROD, QoSClass.LS, 9000, Resources(cpu_milli, 0), now,
            {f"slackwater.io/{name}": value for name, value in labels.items()},
        )  # fmt: skip

    async def report(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            if not self.is_deaf:
                self._obey()
            self.sequence += 1
            used = usage(100)
            report = UsageReported(
                node=self.name,
                boot_epoch="boot",
                sequence=self.sequence,
                sampled_at=self.scene.scene.clock.now(),
                window_seconds=1.0,
                node_usage=used,
                pods=tuple(PodUsage(pod, used) for pod in self.pods.values()),
            )
            await self.scene.publish(report)

    def _obey(self) -> None:
        for intent in self.scene.published(IntentDeclared.TYPE)[-1:]:
            for eviction in intent.evictions:
                if self.pods.pop(eviction.pod_uid, None):
                    self.evicted.append(eviction.pod_uid)


class Together:
    """Quota and ensurance on one bus, a node of 10 cores, and its agent."""

    def __init__(self) -> None:
        self.scene = QuotaScene()
        self.node = Node(self.scene)

    @asynccontextmanager
    async def served(self, autonomy: dict[str, Any] | None = None) -> AsyncIterator[httpx2.AsyncClient]:
        scene = self.scene.scene
        async with scene.running(build_ensurance, EnsuranceSettings()) as ensurance:
            if autonomy is not None:
                async with client_of(ensurance) as client:
                    item = {"kind": "Autonomy", "metadata": {"name": "default"}, "spec": autonomy}
                    stored = await client.put("/v1/autonomies/default", json=item)
                    assert stored.status_code in (200, 201), stored.text
            async with self.scene.running() as quota:
                await self.scene.describe("n0", 10_000)
                await self.scene.store([document(name, spec) for name, spec in TEAMS.items()], quota)
                async with client_of(quota) as client:
                    yield client

    async def borrow(self, client: httpx2.AsyncClient, number: int, grace_seconds: float = 5.0) -> None:
        """Team b uses the pool with claims of one pod each."""
        for place in range(number):
            asked = claim(f"b{place}", 10 // number, workload=f"job-{place}", grace_seconds=grace_seconds)
            assert (await client.post(PATH_B, json=asked)).json()["state"] == "admitted"
            self.node.run(f"pod-{place}", f"job-{place}", 10_000 // number)
        await self.node.report(3)


async def of(client: httpx2.AsyncClient, name: str) -> Any:
    return (await client.get(f"/v1/claims/{name}")).json()


async def test_what_runs_is_started_and_what_has_to_end_is_evicted_with_its_grace() -> None:
    both = Together()
    async with both.served({"mode": "evict"}) as client:
        await both.borrow(client, 2)
        assert [(await of(client, name))["state"] for name in ("b0", "b1")] == ["started", "started"]
        asked = (await client.post(PATH_A, json=claim("a0", 5))).json()
        assert (asked["state"], asked["reason"]) == ("queued", "claim_queued_grant"), "grant comes first"
        assert ": the pool was asked at 00:00:06Z and has not answered" in asked["message"]
        await both.node.report(4)
        (requested,) = both.scene.published("eviction.requested")
        intents = [intent for intent in both.scene.published("intent.declared") if intent.evictions]
        assert [item.grace_seconds for item in intents[0].evictions] == [requested.grace_seconds]
        assert 3.0 <= requested.grace_seconds <= 5.0
        assert (requested.quota, requested.for_quota, requested.for_claim) == ("team-b", "team-a", "a0")
        await both.node.report(6)
        assert both.node.evicted == [f"pod-{requested.claim[1:]}"], "no more than needed"
        assert (await of(client, requested.claim))["state"] == "reclaimed"
        assert (await of(client, "a0"))["state"] == "admitted"


async def test_reclaims_wait_for_the_autonomy_of_the_pool_and_say_so() -> None:
    both = Together()
    async with both.served({"mode": "evict", "evictionsPerHour": 2}) as client:
        await both.borrow(client, 5)
        for number in range(3):
            await client.post(PATH_A, json=claim(f"a{number}", 2))
        await both.node.report(60)
        assert len(both.node.evicted) == 2
        waiting = [await of(client, f"a{number}") for number in range(3)]
        (last,) = [one for one in waiting if one["state"] == "queued"]
        assert last["reason"] == "claim_queued_budget"
        assert "pool default: 2 of 2 evictions an hour are used, 1 more wanted, again at" in last["message"]
        answers = [one for one in both.scene.published("reclaim.answered") if one.granted]
        assert sum(len(one.granted) for one in answers) == 2


async def test_a_pool_that_may_not_evict_reclaims_nothing_that_runs() -> None:
    both = Together()
    async with both.served({"mode": "throttle"}) as client:
        await both.borrow(client, 2)
        await client.post(PATH_A, json=claim("a0", 5))
        await both.node.report(40)
        waiting = await of(client, "a0")
        assert waiting["reason"] == "claim_queued_budget"
        assert "pool default is in mode throttle" in waiting["message"]
        told = [each for ledger in both.scene.published("quota.accounted") for each in ledger.queue]
        reasons = [each.reason for each in told if each.claim == "a0"]
        assert reasons[-1] == "budget"
        assert "grant" not in reasons[reasons.index("budget") :], "it is asked again, and was refused before"
        assert "pool default is in mode throttle" in told[-1].message
        assert both.scene.published("eviction.requested") == []
        assert {(await of(client, name))["state"] for name in ("b0", "b1")} == {"started"}


async def test_without_an_autonomy_the_platform_is_told_and_nothing_is_evicted() -> None:
    both = Together()
    async with both.served() as client:
        await both.borrow(client, 2)
        await client.post(PATH_A, json=claim("a0", 5))
        await both.node.report(20)
        (victim,) = [name for name in ("b0", "b1") if (await of(client, name))["state"] == "reclaiming"]
        assert [intent for intent in both.scene.published("intent.declared") if intent.evictions] == []
        await both.node.report(30)
        assert (await of(client, victim))["run"]["finding"] == "reclaim_without_effect"
        found = records(both.scene, "claim_found_reclaim_without_effect")
        assert [record.subject for record in found] == [victim], "told once"


async def test_without_an_answer_the_pool_does_not_count_as_having_refused() -> None:
    scene = QuotaScene()
    node = Node(scene)
    async with scene.served() as client:  # no ensurance
        await client.post(PATH_B, json=claim("b0", 10, workload="job"))
        node.run("pod-0", "job", 10_000)
        await node.report(3)
        await client.post(PATH_A, json=claim("a0", 6))
        await scene.scene.advance(25.0)
        waiting = await of(client, "a0")
        assert waiting["reason"] == "claim_queued_grant"
        assert "the pool was asked at" in waiting["message"]
        assert "no more evictions" not in waiting["message"]


async def test_a_workload_that_was_reclaimed_borrows_later_each_time() -> None:
    scene = QuotaScene(borrow_backoff_seconds=20.0)
    async with scene.served() as client:
        for number in range(2):
            asked = claim(f"b{number}", 10, workload="job", grace_seconds=1.0)
            await client.post(PATH_B, json=asked)
            await scene.scene.advance(20.0 * number + 1.0)
            assert (await of(client, f"b{number}"))["state"] == "admitted"
            await client.post(PATH_A, json=claim(f"a{number}", 6))
            assert (await of(client, f"b{number}"))["state"] == "reclaiming"
            await client.delete(f"{PATH_B}/b{number}")
            assert (await of(client, f"b{number}"))["state"] == "reclaimed"
            await client.delete(f"{PATH_A}/a{number}")
        for name, cpu in (("held", 4), ("bound", 3)):  # beyond the min of team-a: requested, and never admitted
            await client.post(PATH_A, json=claim(name, cpu, non_preemptible=True))
        tried = (await client.post(f"{PATH_B}?dryRun=true", json=claim("b2", 6, workload="job"))).json()
        asked = (await client.post(PATH_B, json=claim("b2", 6, workload="job"))).json()
        assert (tried["reason"], asked["reason"]) == ("claim_queued_backoff", "claim_queued_backoff")
        assert "reclaimed 2 times lately, borrows again from" in asked["message"]
        other = (await client.post(PATH_B, json=claim("b3", 6, workload="another"))).json()
        assert other["reason"] == "claim_admitted_borrowed", "of another workload"
        await client.delete(f"{PATH_B}/b3")
        within = (await client.post(PATH_B, json=claim("b4", 4, workload="job"))).json()
        assert within["state"] == "admitted", "within its min it does not borrow"
        await client.delete(f"{PATH_B}/b4")
        await scene.scene.advance(37.0)
        assert (await of(client, "b2"))["state"] == "queued"
        await scene.scene.advance(3.0)
        assert (await of(client, "b2"))["state"] == "admitted"


async def test_what_differs_from_the_reports_is_found_and_told_once() -> None:
    both = Together()
    async with both.served({"mode": "evict"}) as client:
        await client.post(PATH_B, json=claim("b0", 2, workload="nothing"))
        await client.post(PATH_B, json=claim("b1", 2, workload="more"))
        both.node.run("pod-1", "more", 3_000)
        both.node.run("pod-2", "stranger", 1_000)
        both.node.run("pod-3", "anything", 1_000, claim="b2")
        await client.post(PATH_B, json=claim("b2", 1))
        await both.node.report(3)
        assert (await of(client, "b2"))["state"] == "started", "by its label"
        assert (await of(client, "b1"))["run"]["finding"] == "beyond_claim"
        await both.node.report(65)
        await both.scene.scene.advance(300.0)
        await both.node.report(15)
        idle = await of(client, "b0")
        since = idle["admitted_at"]
        assert idle["run"] == {"pods": 0, "first_seen_at": None, "finding": "never_started", "since": since}
        tree = (await client.get("/v1/quotas/root/tree")).json()
        assert [(each["workload"], each["pods"], each["amounts"]) for each in tree["unclaimed"]] == [
            ("stranger", 1, {"cpu": 1_000})
        ]
        for reason, subject in (("never_claimed", "stranger"), ("never_started", "b0"), ("beyond_claim", "b1")):
            assert [record.subject for record in records(both.scene, f"claim_found_{reason}")] == [subject]
        del both.node.pods["pod-1"]
        await both.node.report(64)
        assert (await of(client, "b1"))["state"] == "released"
        assert [record.subject for record in records(both.scene, "claim_found_ended")] == ["b1"]
        for reason in ("never_claimed", "never_started", "beyond_claim", "ended"):
            (record,) = records(both.scene, f"claim_found_{reason}")
            found = replay_observation(**json.loads(record.model_dump_json())["replay"]["arguments"])
            assert found == {"reason": record.reason.value, "seconds": record.result}


async def test_pods_of_the_system_come_off_the_total_once() -> None:
    both = Together()
    async with both.served() as client:
        both.node.run("pod-0", "kube-proxy", 1_500)
        pod = both.node.pods["pod-0"]
        both.node.pods["pod-0"] = Pod(
            pod.uid, pod.name, "kube-system", pod.workload, pod.tier, pod.qos, pod.priority, pod.request, pod.started_at
        )
        await both.node.report(70)
        tree = (await client.get("/v1/quotas/root/tree")).json()
        assert (tree["total"]["cpu"], tree["system"]) == (8_500, {"cpu": 1_500})
        assert tree["unclaimed"] == []
        (cpu,) = (await client.get("/v1/quotas/system/why")).json()["dimensions"]
        assert (cpu["total"], cpu["used"], cpu["owed"]) == (10_000, 1_500, 0)
        taken = await client.put("/v1/elasticquotas/system", json=document("system", {"max": {"cpu": 1}}))
        assert (taken.status_code, taken.json()["code"]) == (422, "quota_refused")
        refused = await client.post("/v1/quotas/system/claims", json=claim("s0", 1))
        assert refused.status_code == 404


@pytest.mark.parametrize("ahead_s", [300.0, 3600.0])
def test_a_request_of_a_clock_that_was_ahead_holds_no_later_one_back(ahead_s: float) -> None:
    unanswered = asked(ReclaimGrant(), "default-1", (), 1000.0 + ahead_s)
    granted = answered(unanswered, "default-1", (), 0.0, "", None)
    refused = answered(unanswered, "default-1", (), 0.0, "no more evictions", None)
    for grant, pause_s in ((unanswered, UNANSWERED_S), (granted, 0.0), (refused, REFUSED_S)):
        assert grant.may_ask(1000.0)
        now_s = grant.asked_s + pause_s
        assert grant.may_ask(now_s)
        assert pause_s == 0.0 or not grant.may_ask(now_s - 1.0)
        assert pause_s == 0.0 or not grant.may_ask(grant.asked_s - 1.0), "replicas' clocks differ by seconds"
    again = ReclaimGrant(evicting={"pod": 1000.0 + ahead_s})
    assert again.is_evicting("pod", 1000.0) is (ahead_s < 600.0)


def records(scene: QuotaScene, reason: str) -> Sequence[Any]:
    return [change.record for change in scene.published("decision.recorded") if change.record.reason == reason]
