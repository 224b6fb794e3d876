"""gRPC: admit, follow and release a claim."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from quota_scenes import TEAMS, QuotaScene, document

from slackwater.model.errors import InvalidInput, NotFound
from slackwater.quota.edge.rpc import QuotaRpc
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
