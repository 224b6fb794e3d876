"""A kind that is only declared: a service serves it, stores it and follows it, without a line of its own for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from kind_scenes import EXAMPLE
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.postgres_server import FreshDatabase

from slackwater.ensurance.service import EnsuranceService, build
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.model.time import SystemClock
from slackwater.resources import catalog
from slackwater.resources.names import API_VERSION
from slackwater.runtime.http import build_app
from slackwater.runtime.platform import Platform
from slackwater.runtime.settings import HttpSettings
from slackwater.store.engine import connect_database

GOLD = {
    "apiVersion": API_VERSION,
    "kind": EXAMPLE.name,
    "metadata": {"name": "gold"},
    "spec": {"drainedPercent": 30},
}


@asynccontextmanager
async def replica(address: str, folder: Path) -> AsyncIterator[tuple[EnsuranceService, httpx2.AsyncClient]]:
    clock = SystemClock()
    bus, database = MemoryBus(MemoryBroker(clock=clock)), connect_database(address, "ensurance", clock)
    service = build(EnsuranceSettings(), Platform(bus, clock, lambda _: database, folder))
    ready = asyncio.Event()
    running = asyncio.create_task(service.run(ready.set))
    try:
        with anyio.fail_after(30):
            await ready.wait()
        app = build_app(service.routers(), service.checks, HttpSettings.local())
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
            yield service, client
    finally:
        running.cancel()
        await asyncio.wait({running})
        await database.close()


async def test_a_declared_kind_is_served_stored_and_followed(
    monkeypatch: pytest.MonkeyPatch, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    monkeypatch.setattr(catalog, "KINDS", (*catalog.KINDS, EXAMPLE))
    address = (await fresh_database(["ensurance"]))["ensurance"]
    url = f"{EXAMPLE.path}/gold"
    async with replica(address, tmp_path) as (_, here), replica(address, tmp_path) as (there, _client):
        assert (await here.get(EXAMPLE.path)).json()["items"][0]["metadata"]["name"] == "default"
        assert (await here.put(url, json=GOLD)).status_code == 201
        with anyio.fail_after(30):
            while "2 documents" not in [check.detail for check in await there.checks()]:
                await anyio.sleep(0.05)
        metrics = (await here.get("/metrics")).text
        assert f'slackwater_followed_resources{{kind="{EXAMPLE.name}"}} 2.0' in metrics
        assert (await here.delete(url)).status_code == 200
    async with replica(address, tmp_path) as (_, again):
        kept = (await again.get(f"{url}/history")).json()["items"]
        assert [(one["generation"], one["deleted"]) for one in kept] == [(2, True), (1, False)]
        assert len((await again.get("/v1/autonomies")).json()["items"]) == 0, "other kinds are as they were"
