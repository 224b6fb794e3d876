"""Two teams share a pool: one borrows, the other takes back; every decision is recorded and can be made again."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from importlib import import_module
from itertools import permutations

import httpx2
import pytest
from quota_scenes import EPOCH, QuotaScene, claim, client_of, document, node_described
from tests.support.clock import FakeClock

from slackwater.events.envelope import event_of
from slackwater.events.node_deleted import DeletionReason, NodeDeleted
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.reconciliation import ReconciliationSettings
from slackwater.model.errors import Unavailable
from slackwater.model.tiers import Tier
from slackwater.quota.domain import claim_requests
from slackwater.quota.domain.claim_runs import RunNotice, WorkloadEvidence
from slackwater.quota.service import build
from slackwater.quota.settings import QuotaSettings
from slackwater.quota.usecases import arbitrate_tree
from slackwater.quota.usecases.cluster_totals import WATCHED, ClusterTotals

PATH_A, PATH_B = "/v1/quotas/team-a/claims", "/v1/quotas/team-b/claims"


async def states(client: httpx2.AsyncClient, path: str) -> dict[str, str]:
    return {item["id"]: item["state"] for item in (await client.get(path)).json()["items"]}


async def test_a_team_borrows_and_the_other_takes_back() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        for number in range(5):
            made = await client.post(PATH_B, json=claim(f"b{number}", 2, priority=number))
            assert (made.status_code, made.json()["state"]) == (201, "admitted"), made.text
        tree = (await client.get("/v1/quotas/root/tree")).json()
        figures = {quota["name"]: quota for quota in tree["quotas"]}
        assert tree["total"]["cpu"] == 10_000
        assert figures["team-b"]["borrowed"] == {"cpu": 6_000}
        assert figures["team-a"]["lent"] == {"cpu": 6_000}

        asked = (await client.post(PATH_A, json=claim("a0", 3))).json()
        assert (asked["state"], asked["position"], asked["reason"]) == ("queued", 1, "claim_queued_reclaiming")
        victims = {name for name, state in (await states(client, PATH_B)).items() if state == "reclaiming"}
        assert victims == {"b0", "b1"}, "the lowest priorities, and no more than needed"
        victim = (await client.get(f"{PATH_B}/b0")).json()
        assert (victim["reclaim"]["for_quota"], victim["reclaim"]["for_claim"]) == ("team-a", "a0")
        for name in sorted(victims):
            await client.delete(f"{PATH_B}/{name}")
        assert (await client.get(f"{PATH_A}/a0")).json()["state"] == "admitted"
        assert (await client.get("/v1/claims/b0")).json()["state"] == "reclaimed"

        await scene.scene.advance(1)
        changes = [(change.claim, change.state) for change in scene.published("claim.changed")]
    assert changes[-3:] == [("b0", "reclaimed"), ("b1", "reclaimed"), ("a0", "admitted")]


async def test_every_decision_is_recorded_and_comes_out_the_same_again() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        for number in range(4):
            await client.post(PATH_B, json=claim(f"b{number}", 2))
        await client.post(PATH_A, json=claim("a0", 6))
        await client.post(PATH_A, json=claim("a1", 11))
        await client.delete(f"{PATH_B}/b3")
        await client.delete(f"{PATH_B}/b2")
        await scene.scene.advance(2)
    records = [change.record for change in scene.published("decision.recorded")]
    reasons = {record.reason.value for record in records}
    assert reasons >= {"claim_admitted_within_min", "claim_refused_above_max", "claim_reclaimed_lender_min"}
    for record in records:
        module, _, name = record.replay.function.partition(":")
        assert getattr(import_module(module), name)(**record.replay.arguments) == record.result, record
        assert record.node == "quota:default"


async def test_a_claim_is_idempotent_by_its_id_in_every_state() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        first = await client.post(PATH_A, json=claim("a0", 2))
        again = await client.post(PATH_A, json=claim("a0", "2000m"))
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        for other in (claim("a0", 3), claim("a0", 2, tier="batch")):
            refused = await client.post(PATH_A, json=other)
            assert (refused.status_code, refused.json()["code"]) == (409, "claim_exists")
        refused = await client.post(PATH_B, json=claim("a0", 2))
        assert refused.json()["code"] == "claim_exists"
        for _ in range(2):
            assert (await client.delete(f"{PATH_A}/a0")).json()["state"] == "released"
        assert (await client.post(PATH_A, json=claim("a0", 2))).json()["state"] == "released"
        figures = (await client.get("/v1/quotas/team-a/tree")).json()["quotas"][0]
        assert figures["used"].get("cpu", 0) == 0, "released once"
        assert (await client.get(f"{PATH_B}/a0")).status_code == 404
        assert (await client.delete(f"{PATH_A}/none")).json()["code"] == "claim_not_found"
        assert (await client.get("/v1/quotas/none/claims")).json()["code"] == "elasticquota_not_found"


async def test_a_queue_has_an_end_and_each_quota_fills_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_requests, "MOST_QUEUED", 5)
    monkeypatch.setattr(claim_requests, "MOST_QUEUED_IN_TREE", 6)
    scene = QuotaScene()
    async with scene.served() as client:
        await client.post(PATH_A, json=claim("a-runs", 10))
        at_once = [client.post(PATH_A, json=claim(f"a{number}", 7)) for number in range(9)]
        answers = await asyncio.gather(*at_once)
        assert sorted(answer.status_code for answer in answers) == [201] * 5 + [409] * 4
        refused = await client.post(f"{PATH_A}?dryRun=true", json=claim("a9", 7))
        assert (refused.json()["code"], "5 claims" in refused.json()["detail"]) == ("queue_full", True)
        assert (await client.post(PATH_A, json=claim("a0", 7))).status_code == 200, "it waits already"
        mine = [(await client.post(PATH_B, json=claim(f"b{number}", 7))).status_code for number in range(4)]
        assert mine == [201, 201, 201, 409], "an equal share of a full tree"
        await client.delete(f"{PATH_A}/a1")
        await client.delete(f"{PATH_A}/a2")
        assert (await client.post(PATH_A, json=claim("a9", 7))).status_code == 409, "it has its share"
        await client.delete(f"{PATH_A}/a3")
        assert (await client.post(PATH_A, json=claim("a9", 7))).status_code == 201


async def test_a_full_queue_refuses_without_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision looks at all that wait: what is refused shall not cost as much as what is taken."""
    monkeypatch.setattr(claim_requests, "MOST_QUEUED", 1)
    scene = QuotaScene()
    async with scene.served() as client:
        await client.post(PATH_A, json=claim("a-runs", 10))
        await client.post(PATH_A, json=claim("a0", 7))
        monkeypatch.setattr(arbitrate_tree, "decide_tree", None)
        assert (await client.post(PATH_A, json=claim("a1", 7))).json()["code"] == "queue_full"


async def test_a_dry_run_says_what_would_be_and_changes_nothing() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        tried = await client.post(f"{PATH_A}?dryRun=true", json=claim("a0", 2))
        assert (tried.status_code, tried.json()["state"]) == (200, "admitted")
        assert await states(client, PATH_A) == {}
        await client.post(PATH_A, json=claim("a0", 2))
        assert (await client.delete(f"{PATH_A}/a0?dryRun=true")).json()["state"] == "released"
        assert await states(client, PATH_A) == {"a0": "admitted"}
        document = {"kind": "ElasticQuota", "metadata": {"name": "team-a"}, "spec": {"max": {"cpu": 1}}}
        tried = await client.put("/v1/elasticquotas/team-a?dryRun=true", json=document)
        (change,) = tried.json()["runtimes"]["quotas"]
        assert (change["quota"], change["before"], change["after"], change["owed"]) == ("team-a", 2_000, 1_000, 1_000)
        refused = await client.delete("/v1/elasticquotas/team-a")
        assert (refused.status_code, refused.json()["code"]) == (409, "quota_in_use")


async def test_a_claim_says_what_others_do_not_lend_where_the_pool_is_too_small_beside_it() -> None:
    scene = QuotaScene()
    keeps = {"min": {"cpu": 6}, "max": {"cpu": 10}, "allowLentResource": False}
    async with scene.served(team_a=keeps, team_b={"max": {"cpu": 10}, "queuePolicy": "StrictFIFO"}) as client:
        waiting = (await client.post(PATH_B, json=claim("b0", 5))).json()
        assert (waiting["state"], waiting["reason"]) == ("queued", "claim_queued_beyond_pool")
        said = "the whole pool is too small for it; cpu: 10 in all, of which other quotas do not lend 6; it requests 5"
        assert waiting["message"] == said
        assert (await client.post(PATH_B, json=claim("b1", 4))).json()["state"] == "admitted"
        await scene.describe("n1", 1_000)
        await scene.scene.advance(2)
        assert (await client.get(f"{PATH_B}/b0")).json()["state"] == "queued", "4 of the 5 that are lent are used"
        await client.delete(f"{PATH_B}/b1")
        assert (await client.get(f"{PATH_B}/b0")).json()["state"] == "admitted"


async def test_a_request_whose_writer_is_stopped_is_not_refused() -> None:
    scene = QuotaScene()
    database, ends = scene.scene.platform.database("quota"), [asyncio.Event(), asyncio.Event()]

    async def hold(end: asyncio.Event) -> None:
        async with database.unit_of_work():
            await end.wait()

    async with scene.running() as service:
        await scene.describe("n0", 10_000)
        await scene.store([document("team-a", {"max": {"cpu": 10}})], service)
        wanted = [QuotaClaim(f"a{number}", "team-a", Tier.PROD, {"cpu": 1}, 0.0) for number in range(3)]
        submit = service.claims.submit
        first, waits = asyncio.create_task(hold(ends[0])), []
        for work in (submit(wanted[0]), hold(ends[1]), submit(wanted[1]), submit(wanted[2])):
            await turns()
            waits.append(asyncio.create_task(work))
        await turns()
        ends[0].set()
        await turns()  # the second request writes, the third one with it, and the database is held again
        waits[2].cancel()
        await turns()
        ends[1].set()
        outcomes = await asyncio.gather(first, *waits, return_exceptions=True)
        assert [type(each) for each in outcomes[3:]] == [asyncio.CancelledError, Unavailable]
        assert [(await submit(each))[1] for each in wanted] == [False, True, True]


async def turns() -> None:
    """Let every task go on until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_sum_behind_a_runtime_adds_up() -> None:
    scene = QuotaScene()
    spec = {"team_a": {"min": {"cpu": 2}, "max": {"cpu": 8}}, "team_b": {"min": {"cpu": 2}, "max": {"cpu": 8}}}
    async with scene.served(**spec) as client:
        await client.post(PATH_A, json=claim("a0", 3))
        await client.post(PATH_B, json=claim("b0", 8))
        why = (await client.get("/v1/quotas/team-b/why")).json()
        (cpu,) = why["dimensions"]
        assert cpu["first"] + sum(each["given"] - each["returned"] for each in cpu["rounds"]) == cpu["runtime"] == 7_000
        assert (cpu["total"], cpu["min"], cpu["scaled_min"]) == (10_000, 2_000, 2_000)


async def test_a_past_runtime_is_explained_as_it_was() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        before = scene.scene.clock.now()
        await client.post(PATH_A, json=claim("a0", 3))
        await client.post(PATH_B, json=claim("b0", 7))
        await scene.scene.advance(10)
        then = (await client.get("/v1/quotas/team-b/why")).json()
        at = scene.scene.clock.now()
        await client.delete(f"{PATH_B}/b0")
        await scene.scene.advance(10)
        now = (await client.get("/v1/quotas/team-b/why")).json()
        assert now["dimensions"] != then["dimensions"]
        past = (await client.get("/v1/quotas/team-b/why", params={"at": at.isoformat()})).json()
        assert past["dimensions"] == then["dimensions"]
        assert past["since"] is not None
        assert now["since"] is None
        past = (await client.get("/v1/quotas/team-b/why", params={"at": "10s"})).json()
        assert past["dimensions"] == then["dimensions"]
        missing = await client.get("/v1/quotas/team-b/why", params={"at": (before - timedelta(hours=1)).isoformat()})
        assert (missing.status_code, missing.json()["code"]) == (404, "quota_history_not_found")


@pytest.mark.parametrize("tier", ["batch", "prod"])
async def test_totals_follow_nodes_that_are_lost_and_offers_that_shrink(tier: str) -> None:
    scene = QuotaScene()
    resource = "cpu" if tier == "prod" else "batch-cpu"
    async with scene.served(team_a={"max": {resource: 100}}) as client:
        await scene.describe("n1", 6_000)
        for node in ("n0", "n1"):
            await scene.offer(node, 3_000)

        async def total() -> int:
            found: int = (await client.get("/v1/quotas/root/tree")).json()["total"][resource]
            return found

        assert await total() == (16_000 if tier == "prod" else 6_000)
        await scene.offer("n0", 1_000)
        assert await total() == (16_000 if tier == "prod" else 4_000)
        await scene.lose("n1")
        assert await total() == (10_000 if tier == "prod" else 1_000)
        made = (await client.post(PATH_A, json=claim("a0", 12, tier=tier))).json()
        assert (made["state"], made["reason"]) == ("queued", "claim_queued_beyond_pool")


async def test_what_reservations_keep_counts_as_used_and_no_claim_is_admitted_to_it() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        await scene.reserve("n0", Tier.PROD, 7_000, seconds=60)
        tree = (await client.get("/v1/quotas/root/tree")).json()
        assert (tree["total"]["cpu"], tree["reserved"]) == (10_000, {"cpu": 7_000})
        made = (await client.post(PATH_A, json=claim("a0", 4))).json()
        assert (made["state"], made["reason"]) == ("queued", "claim_queued_capacity"), made
        assert (await client.post(PATH_A, json=claim("a1", 3))).json()["state"] == "admitted"
        await scene.scene.advance(59)  # its publisher says nothing more
        assert (await client.get("/v1/quotas/root/tree")).json()["reserved"] == {}
        assert await states(client, PATH_A) == {"a0": "admitted", "a1": "admitted"}
    records = [change.record for change in scene.published("decision.recorded")]
    assert any(each.name == "reserved cpu" and each.value == 7_000 for record in records for each in record.inputs)
    for record in records:
        module, _, name = record.replay.function.partition(":")
        assert getattr(import_module(module), name)(**record.replay.arguments) == record.result, record


async def test_an_offer_without_what_is_reserved_is_not_reduced_again() -> None:
    scene = QuotaScene()
    async with scene.served(team_a={"max": {"batch-cpu": 100}}) as client:

        async def figures() -> tuple[int, int]:
            tree = (await client.get("/v1/quotas/root/tree")).json()
            return tree["total"]["batch-cpu"], tree["reserved"].get("batch-cpu", 0)

        await scene.offer("n0", 3_000)
        await scene.reserve("n0", Tier.BATCH, 2_000)
        assert await figures() == (3_000, 2_000), "colocation has not decided yet"
        await scene.offer("n0", 1_000, 2_000)
        assert await figures() == (3_000, 2_000)
        await scene.reserve("n0", Tier.BATCH, 0)
        assert await figures() == (3_000, 2_000), "not given out before colocation offers it"
        await scene.offer("n0", 3_000)
        assert await figures() == (3_000, 0)
        await scene.reserve("n0", Tier.BATCH, 5_000)
        assert await figures() == (3_000, 3_000), "not more than the node has"
        await scene.lose("n0")
        assert await figures() == (0, 0)


async def test_a_profile_takes_its_pool_out_of_the_default_tree() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        await scene.describe("g0", 8_000, pool="gold")
        profile = {"kind": "QuotaProfile", "metadata": {"name": "gold"}, "spec": {"resourcePercent": 50}}
        assert (await client.put("/v1/quotaprofiles/gold", json=profile)).status_code == 201
        await scene.scene.advance(1)
        assert (await client.get("/v1/quotas/root/tree")).json()["total"]["cpu"] == 10_000
        gold = (await client.get("/v1/quotas/root/tree", params={"tree": "gold"})).json()
        assert (gold["total"]["cpu"], gold["nodes"], gold["quotas"]) == (4_000, 1, [])


async def test_a_restart_and_a_second_replica_know_every_claim() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        await client.post(PATH_A, json=claim("a0", 2))
        await client.post(PATH_A, json=claim("a1", 20))
    async with scene.served() as client:
        assert await states(client, PATH_A) == {"a0": "admitted"}
        assert (await client.get(f"{PATH_A}/a1")).json()["reason"] == "claim_refused_above_max"


async def test_a_node_that_is_back_counts_whichever_event_is_read_first() -> None:
    def at(second: int) -> datetime:
        return EPOCH + timedelta(seconds=second)

    gone = NodeDeleted(node="n0", reason=DeletionReason.OPERATOR, deleted_by="mara", deleted_at=at(10))
    back, before = node_described("n0", 8_000, at=at(20)), node_described("n0", 4_000, at=at(0))
    for payloads in permutations((gone, back, before)):
        totals = ClusterTotals(FakeClock(at(30)))
        for payload in payloads:
            await totals.receive(event_of(payload, source="test", time=at(30)))
        assert totals.now(())[""].total["cpu"] == 8_000, [type(payload).__name__ for payload in payloads]


async def test_nothing_is_decided_before_quotas_and_pools_are_read() -> None:
    scene = QuotaScene()
    service = build(QuotaSettings(), scene.scene.platform)
    async with client_of(service) as client:
        early = await client.post(PATH_A, json=claim("a0", 2))
        assert (early.status_code, early.json()["code"]) == (503, "unavailable")
        assert (await client.get("/v1/quotas/root/tree")).status_code == 503, "its totals would be those of no node"
        evidence = WorkloadEvidence("job", (), (), (), (), 0.0, 0.0, ReconciliationSettings())
        with pytest.raises(Unavailable):  # what agents report is compared later too
            await service.claims.of("").note([RunNotice("a0", "team-a", None, evidence)])
    async with scene.served() as client:
        assert (await client.post(PATH_A, json=claim("a0", 2))).status_code == 201
    known = ClusterTotals(FakeClock(EPOCH))
    for payload in WATCHED:
        assert not known.is_known
        known.caught_up(payload)
    assert known.is_known


async def test_a_replica_that_has_read_no_quotas_deletes_none_that_have_claims() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        await client.post(PATH_A, json=claim("a0", 2))
    async with client_of(build(QuotaSettings(), scene.scene.platform)) as client:
        refused = await client.delete("/v1/elasticquotas/team-a")
    assert (refused.status_code, refused.json()["code"]) == (409, "quota_in_use")
