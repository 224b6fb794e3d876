"""Admit, Watch and Release through the process's gRPC server, with claims that another replica changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc.aio
from quota_scenes import node_described
from test_racing_replicas import MOST, replica, store_quotas, until_known
from tests.support.postgres_server import FreshDatabase

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import event_of
from slackwater.model.time import SystemClock
from slackwater.quota.service import QuotaService
from slackwater.runtime.rpc import RpcServer
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings, RpcSettings
from slackwater.v1 import quantity_pb2
from slackwater.v1 import quota_service_pb2 as messages
from slackwater.v1 import quota_service_pb2_grpc as stubs


@asynccontextmanager
async def stub_of(service: QuotaService) -> AsyncIterator[Any]:
    async def well() -> list[Check]:
        return []

    server, started = RpcServer(RpcSettings(port=0), HttpSettings.local(), service.rpc_parts(), well), asyncio.Event()
    running = asyncio.create_task(server.run(started.set))
    await started.wait()
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield stubs.QuotaServiceStub(channel)
    running.cancel()
    await asyncio.wait([running])


def wanted(name: str, quota: str, cpu: str) -> messages.AdmitRequest:
    return messages.AdmitRequest(id=name, quota=quota, tier=quantity_pb2.TIER_PROD, request={"cpu": cpu})


async def rest(call: Any) -> list[messages.Claim]:
    """The claims of a stream until its server ends it."""
    found = []
    while (message := await call.read()) is not grpc.aio.EOF:
        found.append(message.claim)
    return found


async def test_a_watch_shows_every_state_whichever_replica_changes_it(
    bus: NatsBus, nats_url: str, fresh_database: FreshDatabase
) -> None:
    dsn = (await fresh_database(["quota"]))["quota"]
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(replica(nats_url, dsn)) for _ in range(2)]
        await bus.publish(event_of(node_described("n0", MOST), source="test", time=SystemClock().now()))
        await store_quotas(services[0])
        for service in services:
            await until_known(service)
        first, second = [await stack.enter_async_context(stub_of(service)) for service in services]
        lender = await second.Admit(wanted("b0", "team-b", "10"))
        assert lender.claim.state == messages.CLAIM_STATE_ADMITTED
        victim = first.Watch(messages.WatchRequest(quota="team-b", id="b0"))
        seen = [(await victim.read()).claim]
        queued = await second.Admit(wanted("a0", "team-a", "6"))
        waiting = first.Watch(messages.WatchRequest(quota="team-a", id="a0"))
        shown = [(await waiting.read()).claim]
        seen.append((await victim.read()).claim)
        await second.Release(messages.ReleaseRequest(quota="team-b", id="b0"))
        seen += await rest(victim)
        shown.append((await waiting.read()).claim)
        await first.Release(messages.ReleaseRequest(quota="team-a", id="a0"))
        shown += await rest(waiting)
        unknown = first.Watch(messages.WatchRequest(quota="team-a", id="none"))
        try:
            await unknown.read()
        except grpc.aio.AioRpcError as error:
            refused = error.code()
    assert queued.claim.state == messages.CLAIM_STATE_QUEUED
    assert [claim.state for claim in seen] == [
        messages.CLAIM_STATE_ADMITTED,
        messages.CLAIM_STATE_RECLAIMING,
        messages.CLAIM_STATE_RECLAIMED,
    ]
    assert [claim.state for claim in shown] == [
        messages.CLAIM_STATE_QUEUED,
        messages.CLAIM_STATE_ADMITTED,
        messages.CLAIM_STATE_RELEASED,
    ]
    assert seen[1].for_claim == "a0"
    assert refused is grpc.StatusCode.NOT_FOUND
