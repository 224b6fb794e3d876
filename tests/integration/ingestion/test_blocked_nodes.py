"""A blocked node falls silent, survives a restart of ingestion, and comes back. On the twins of its servers, in virtual
time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from test_ingestion_service import eventually, ingesting
from tests.support.reports import described, report
from tests.support.twin_servers import TwinServers

from slackwater.events.envelope import Event, event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.ingestion.service import IngestionService
from slackwater.model.nodes import Liveness
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings

NODE = "n.1"


async def _no_checks() -> list[Any]:
    return []


async def change(service: IngestionService, method: str, body: object = None) -> int:
    app = build_app(list(service.routers()), _no_checks, HttpSettings(host="127.0.0.1", port=0))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return (await client.request(method, f"/v1/nodes/{NODE}/block", json=body)).status_code


@pytest.mark.looptime
async def test_a_blocked_node_is_lost_and_comes_back_with_its_next_report() -> None:
    servers = TwinServers(["ingestion"])
    seen: list[Liveness] = []

    async def note(event: Event[NodeLivenessChanged]) -> None:
        seen.append(event.data.liveness)

    async with servers.bus("test") as bus:
        now = servers.clock.now()
        await bus.publish(event_of(described(NODE, now), source="agent", time=now))
        sequence = 0

        async def reporting(until: Callable[[], bool]) -> None:
            """Publish reports as the agent does, with or without a reader."""
            nonlocal sequence
            while not until():
                sequence += 1
                at = servers.clock.now()
                await bus.publish(event_of(report(NODE, sequence, at), source=f"agent/{NODE}", time=at))
                with suppress(TimeoutError):
                    await _briefly(until)

        async with bus.watch(NodeLivenessChanged, note):
            async with ingesting(servers.platform(bus, "ingestion")) as service:
                await reporting(lambda: seen[-1:] == [Liveness.FRESH])
                assert await change(service, "PUT", {"reason": "sends poison"}) == 200
                await reporting(lambda: seen[-1:] == [Liveness.STALE])
            async with (
                servers.bus("restarted") as another,
                ingesting(servers.platform(another, "ingestion")) as service,
            ):
                assert another.blocks.last(NODE) is not None
                before = sequence
                await reporting(lambda: sequence >= before + 20)
                assert seen[-1] is Liveness.STALE
                assert await change(service, "DELETE") == 200
                await reporting(lambda: seen[-1:] == [Liveness.FRESH])


async def _briefly(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(0.1):
        await eventually(condition)
