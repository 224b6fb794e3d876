"""Unauthenticated clients may watch health, and cannot exhaust the server for authenticated ones by watching."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from test_rpc_server import code_of, running, scripted

from slackwater.runtime import rpc, rpc_health
from slackwater.runtime.settings import HttpSettings
from slackwater.v1 import colocation_service_pb2 as api
from slackwater.v1 import colocation_service_pb2_grpc as stubs

CALLS, WATCHES = 12, 4


async def test_unauthenticated_watchers_leave_room_for_clients_with_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "MOST_CALLS", CALLS)
    monkeypatch.setattr(rpc_health, "MOST_WATCHES", WATCHES)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"v viewer {'v' * 20}\n")
    tokens.chmod(0o600)
    async with running(scripted(), HttpSettings(tokens_file=tokens)) as (channel, server), AsyncExitStack() as stack:
        stranger = await stack.enter_async_context(grpc.aio.insecure_channel(server.address))
        health: Any = health_pb2_grpc.HealthStub(stranger)
        watching, refused = 0, set()
        for _ in range(CALLS):
            call = health.Watch(health_pb2.HealthCheckRequest())
            stack.callback(call.cancel)
            try:
                await call.read()
                watching += 1
            except grpc.aio.AioRpcError as error:
                refused.add(error.code())
        shown = grpc.aio.Metadata(("authorization", f"Bearer {'v' * 20}"))
        found = await code_of(stubs.ColocationServiceStub(channel).GetNode(api.GetNodeRequest(), metadata=shown))
        assert found[0] is grpc.StatusCode.OK
        assert (watching, refused) == (WATCHES, {grpc.StatusCode.RESOURCE_EXHAUSTED})
        assert (await code_of(health.Check(health_pb2.HealthCheckRequest())))[0] is grpc.StatusCode.OK
