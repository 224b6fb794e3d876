"""The ledger that quota publishes for display: what the API answers, the queue, and the next reclaims."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st
from quota_scenes import QuotaScene, claim

from slackwater.cli.quota_columns import why_lines
from slackwater.events.quota_accounted import QuotaAccounted
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import QuotaClaim, admit
from slackwater.fairshare.debts import accounts
from slackwater.fairshare.tree import Quota
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.model.tiers import Tier
from slackwater.quota.domain.reclaim_candidates import reclaim_candidates
from slackwater.quota.usecases.account_trees import UNCHANGED_SECONDS

PATH_A, PATH_B = "/v1/quotas/team-a/claims", "/v1/quotas/team-b/claims"
SUMS = ("min", "max", "used", "requested", "entitled", "runtime", "fair_share", "borrowed", "lent", "owed")


async def tree(client: httpx2.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get("/v1/quotas/root/tree")).json()
    return found


async def reclaims(client: httpx2.AsyncClient, quota: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/v1/quotas/{quota}/reclaims")).json()
    return found


def ledgers(scene: QuotaScene) -> list[QuotaAccounted]:
    return scene.published("quota.accounted")


async def test_the_published_ledger_is_what_the_api_answers() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        for number in range(5):
            await client.post(PATH_B, json=claim(f"b{number}", 2, priority=number))
        await scene.scene.advance(3)
        said, last = await tree(client), ledgers(scene)[-1]
        assert (last.tree, last.generation, dict(last.total)) == ("default", said["generation"], said["total"])
        for figures, answered in zip(last.quotas, said["quotas"], strict=True):
            assert figures.name == answered["name"]
            assert [getattr(figures, word) for word in SUMS] == [answered[word] for word in SUMS]
            assert (figures.holding, figures.queued) == (answered["holding"], answered["queued"])
        next_ones = [one.claim for one in last.candidates]
        assert next_ones == ["b0", "b1", "b2"], "6 of 10 CPU are borrowed: three claims of 2"
        answer = await reclaims(client, "root")
        assert [one["claim"] for one in answer["next"]] == next_ones
        assert answer["next"][0]["amounts"] == {"cpu": 2000}
        assert answer["reclaiming"] == [] == (await reclaims(client, "team-a"))["next"]
        printed = "\n".join(why_lines((await client.get("/v1/quotas/team-b/why")).json()))
        assert "reclaimed next, as far as a lender asks:\n  claim b0 of team-b, priority 0: cpu 2\n" in printed

        await client.post(PATH_A, json=claim("a0", 3))
        await scene.scene.advance(3)
        last = ledgers(scene)[-1]
        assert [(one.claim, one.position, one.reason) for one in last.queue] == [("a0", 1, "reclaiming")]
        assert {one.claim for one in last.reclaiming} == set(next_ones[:2]), "the first of those that were next"
        assert {(one.for_quota, one.for_claim) for one in last.reclaiming} == {("team-a", "a0")}
        assert [one.claim for one in last.candidates] == ["b2"], "4 of 6 CPU are being reclaimed"
        answer = await reclaims(client, "team-b")
        assert [one["claim"] for one in answer["next"]] == ["b2"]
        assert [one["claim"] for one in answer["reclaiming"]] == [one.claim for one in last.reclaiming]
        assert {one["reclaim"]["for_claim"] for one in answer["reclaiming"]} == {"a0"}
        assert (await client.get("/v1/quotas/team-c/reclaims")).status_code == 404


async def test_a_ledger_that_does_not_change_is_published_once_a_minute() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        await client.post(PATH_B, json=claim("b0", 2))
        await scene.scene.advance(5)
        before = len(ledgers(scene))
        await scene.scene.advance(UNCHANGED_SECONDS / 2)
        assert len(ledgers(scene)) == before
        await scene.scene.advance(UNCHANGED_SECONDS)
        assert len(ledgers(scene)) in (before + 1, before + 2)


async def test_a_tree_without_quotas_is_published_once_more() -> None:
    scene = QuotaScene()
    async with scene.served() as client:
        await scene.scene.advance(3)
        assert ledgers(scene)[-1].quotas
        for quota in ("team-a", "team-b"):
            assert (await client.delete(f"/v1/elasticquotas/{quota}")).status_code in (200, 204)
        await scene.scene.advance(3)
        remaining = {quota.name for quota in ledgers(scene)[-1].quotas}
        assert not remaining & {"team-a", "team-b"}


held = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 4), st.integers(0, 2), st.booleans()), max_size=10
)


@given(held, st.integers(4, 20))
@settings(max_examples=50)
def test_candidates_are_enough_for_what_is_borrowed_and_none_is_idle(
    given_claims: list[tuple[str, int, int, bool]], total: int
) -> None:
    quotas = [
        Quota(name=name, parent="root", minimum={"cpu": 4}, maximum={"cpu": 40}, weight={"cpu": 1}) for name in "abc"
    ]
    claims = [
        admit(
            QuotaClaim(f"{n}", quota, Tier.PROD, {"cpu": amount}, float(n), priority, fixed), {"cpu": amount}, float(n)
        )
        for n, (quota, amount, priority, fixed) in enumerate(given_claims)
    ]
    layout = TreeLayout(quotas)
    figures = accounts(layout, ClaimIndex(claims), {"cpu": total})
    found = reclaim_candidates(quotas, claims, figures, {"cpu": total})
    assert [one.priority for one in found] == sorted(one.priority for one in found)
    assert not any(one.non_preemptible for one in found)
    taken: Counter[str] = Counter()
    for one in found:
        borrowed = figures[one.quota].borrowed.get("cpu", 0)
        assert taken[one.quota] < borrowed, "those before it were not enough"
        taken[one.quota] += one.admitted["cpu"]
    for name, account in figures.items():
        movable = sum(one.admitted["cpu"] for one in claims if one.quota == name and not one.non_preemptible)
        assert taken[name] >= min(account.borrowed.get("cpu", 0), movable)
