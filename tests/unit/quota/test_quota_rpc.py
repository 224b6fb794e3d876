"""gRPC: admit, follow and release a claim."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from quota_scenes import TEAMS, QuotaScene, document

from slackwater.fairshare.claims import ClaimState, QuotaClaim
from slackwater.model.errors import InvalidInput, NotFound
from slackwater.model.tiers import Tier
from slackwater.quota.edge.rpc import MOST_CLAIMS, QuotaRpc
from slackwater.quota.usecases import arbitrate_tree
from slackwater.quota.usecases.tree_view import ClaimStanding
from slackwater.v1 import quantity_pb2
from slackwater.v1 import quota_service_pb2 as messages


class Call:
    """What the server writes to one call."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    async def write(self, message: Any) -> None:
        self.written.append(message)


def wanted(name: str, quota: str, cpu: str, **more: Any) -> messages.AdmitRequest:
    return messages.AdmitRequest(id=name, quota=quota, tier=quantity_pb2.TIER_PROD, request={"cpu": cpu}, **more)


async def test_a_platform_admits_follows_and_releases() -> None:
    scene = QuotaScene()
    async with scene.running() as service:
        await scene.describe("n0", 10_000)
        await scene.store([document(name, spec) for name, spec in TEAMS.items()], service)
        rpc, none = QuotaRpc(service.claims, asyncio.Event()), Call()
        tried = await rpc.Admit(wanted("b0", "team-b", "10", dry_run=True), none)
        assert tried.claim.state == messages.CLAIM_STATE_ADMITTED
        with pytest.raises(NotFound):
            await rpc.Release(messages.ReleaseRequest(quota="team-b", id="b0"), none)
        admitted = await rpc.Admit(wanted("b0", "team-b", "10", grace_seconds=7.0), none)
        assert admitted.claim.state == messages.CLAIM_STATE_ADMITTED
        changes = rpc.changes("team-b", "b0")
        states = [(await anext(changes)).state]
        queued = await rpc.Admit(wanted("a0", "team-a", "6"), none)
        assert (queued.claim.state, queued.claim.position) == (messages.CLAIM_STATE_QUEUED, 1)
        demand = await anext(changes)
        released = await rpc.Release(messages.ReleaseRequest(quota="team-b", id="b0"), none)
        assert released.claim.state == messages.CLAIM_STATE_RECLAIMED
        states += [demand.state, *[message.state async for message in changes]]
    assert states == [
        messages.CLAIM_STATE_ADMITTED,
        messages.CLAIM_STATE_RECLAIMING,
        messages.CLAIM_STATE_RECLAIMED,
    ]
    assert (demand.for_quota, demand.for_claim) == ("team-a", "a0")
    assert demand.deadline.ToDatetime().timestamp() > 0


async def test_many_claims_are_answered_together_each_by_itself() -> None:
    scene = QuotaScene()
    async with scene.running() as service:
        await scene.describe("n0", 10_000)
        await scene.store([document(name, spec) for name, spec in TEAMS.items()], service)
        rpc, none = QuotaRpc(service.claims, asyncio.Event()), Call()
        await rpc.Admit(wanted("taken", "team-a", "1"), none)
        claims = [
            wanted("a0", "team-a", "4"),
            wanted("b0", "nobody", "1"),
            wanted("taken", "team-a", "2"),
            wanted("a/b", "team-a", "1"),
            wanted("a1", "team-a", "1", dry_run=True),
            wanted("b1", "team-b", "7"),
            wanted("a0", "team-a", "4"),
        ]
        tried = (await rpc.AdmitMany(messages.AdmitManyRequest(claims=claims, dry_run=True), none)).results
        assert [each.error.code for each in tried[1:3]] == ["elasticquota_not_found", "claim_exists"]
        assert tried[5].claim.state == messages.CLAIM_STATE_ADMITTED, "alone"
        answered = (await rpc.AdmitMany(messages.AdmitManyRequest(claims=claims), none)).results
        assert [(each.claim.id, each.error.code, each.error.field) for each in answered] == [
            ("a0", "", ""),
            ("", "elasticquota_not_found", ""),
            ("", "claim_exists", "id"),
            ("", "invalid_input", "id"),
            ("", "invalid_input", "dry_run"),
            ("b1", "", ""),
            ("a0", "", ""),
        ]
        assert answered[0] == answered[-1]
        assert answered[0].claim.state == messages.CLAIM_STATE_ADMITTED
        assert (answered[5].claim.state, answered[5].claim.position) == (messages.CLAIM_STATE_QUEUED, 1)
        again = (await rpc.AdmitMany(messages.AdmitManyRequest(claims=claims[:1]), none)).results
        assert again[0].claim.state == messages.CLAIM_STATE_ADMITTED
        await scene.scene.advance(1)
        assert sorted(each.claim for each in scene.published("claim.changed")) == ["a0", "b1", "taken"], "each once"
        for number in (0, MOST_CLAIMS + 1):
            many = messages.AdmitManyRequest(claims=[claims[0]] * number)
            with pytest.raises(InvalidInput, match="allowed: 1 to 500"):
                await rpc.AdmitMany(many, none)


async def test_requests_beyond_one_transaction_are_carried_out_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arbitrate_tree, "MOST_TOGETHER", 3)
    scene = QuotaScene()
    async with scene.running() as service:
        await scene.describe("n0", 10_000)
        await scene.store([document(name, spec) for name, spec in TEAMS.items()], service)
        claims = [QuotaClaim(f"a{number}", "team-a", Tier.PROD, {"cpu": 1}, 0.0) for number in range(10)]
        singly = asyncio.gather(*(service.claims.submit(claim) for claim in claims[:2]))
        together = await service.claims.submit_many(claims[2:])
        admitted = [*(standing for standing, _ in await singly), *together]
        view = await service.claims.view_of("team-a")
    states = [each.kept.claim.state for each in admitted if isinstance(each, ClaimStanding)]
    assert states == [ClaimState.ADMITTED] * 10
    assert view.generation >= 4, "at most three requests a transaction"


async def test_what_is_no_claim_is_refused_with_its_field() -> None:
    scene = QuotaScene()
    async with scene.running() as service:
        rpc = QuotaRpc(service.claims, asyncio.Event())
        for request, field in (
            (messages.AdmitRequest(id="a", quota="default"), "request"),
            (wanted("a/b", "default", "1"), "id"),
            (wanted("a", "default", "-1"), "request"),
            (wanted("a", "", "1"), "quota"),
            (messages.AdmitRequest(id="a", quota="q", tier=quantity_pb2.TIER_FREE, request={"cpu": "1"}), "tier"),
        ):
            with pytest.raises(InvalidInput) as refused:
                await rpc.Admit(request, Call())
            assert refused.value.field == field
        with pytest.raises(NotFound):
            await rpc.Release(messages.ReleaseRequest(quota="default", id="none"), Call())
