"""Documents of resource kinds on PostgreSQL and NATS: what is changed by REST, or was stored before, is on the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx2
from sqlalchemy import text
from tests.support.postgres_server import FreshDatabase

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.console import service as console
from slackwater.console.settings import ConsoleSettings
from slackwater.ensurance import service as ensurance
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.model.time import SystemClock
from slackwater.resources.names import API_VERSION
from slackwater.runtime.http import build_app
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Service
from slackwater.runtime.settings import HttpSettings
from slackwater.store.engine import connect_database

OLD = (
    '{"apiVersion": "slackwater.io/v1alpha1", "kind": "Autonomy", "metadata": {"name": "old", "changedBy": "mara"},'
    ' "spec": {"mode": "throttle"}}'
)
GOLD = {"apiVersion": API_VERSION, "kind": "Autonomy", "metadata": {"name": "gold"}, "spec": {"mode": "throttle"}}


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[httpx2.AsyncClient]:
    ready = asyncio.Event()
    running = asyncio.create_task(service.run(ready.set))
    try:
        with anyio.fail_after(30):
            await ready.wait()
        app = build_app(service.routers(), service.checks, HttpSettings.local())
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
            yield client
    finally:
        running.cancel()
        await asyncio.wait({running})


async def page(client: httpx2.AsyncClient, path: str, *wanted: str) -> str:
    """The page as soon as it holds all that is wanted."""
    with anyio.fail_after(30):
        while True:
            found = (await client.get(path)).text
            if all(text_of_page in found for text_of_page in wanted):
                return found
            await anyio.sleep(0.05)


async def test_a_change_by_rest_and_what_an_older_version_stored_are_on_the_page(
    bus: NatsBus, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    clock = SystemClock()
    addresses = await fresh_database(["console", "ensurance"])
    databases = {name: connect_database(address, name, clock) for name, address in addresses.items()}
    platform = Platform(bus, clock, databases.__getitem__, tmp_path)
    insert = text("INSERT INTO autonomies (name, generation, document) VALUES ('old', 4, CAST(:document AS jsonb))")
    async with databases["ensurance"].unit_of_work() as unit:
        await unit.connection.execute(insert, {"document": OLD})
    async with AsyncExitStack() as stack:
        pages = await stack.enter_async_context(serving(console.build(ConsoleSettings(), platform)))
        api = await stack.enter_async_context(serving(ensurance.build(EnsuranceSettings(), platform)))
        await page(pages, "/resources/autonomies", "/resources/autonomies/old", "by mara")
        assert (await api.put("/v1/autonomies/gold", json=GOLD)).status_code == 201
        evict = {**GOLD, "spec": {"mode": "evict"}}
        assert (await api.put("/v1/autonomies/gold", json=evict)).status_code == 200
        await page(pages, "/resources/autonomies", "/resources/autonomies/gold")
        await page(pages, "/resources/autonomies/gold", "generation 2", "spec.mode", "mode: evict")
        assert (await api.delete("/v1/autonomies/gold")).status_code == 200
        await page(pages, "/resources/autonomies/gold", "It was deleted")
        assert "/resources/autonomies/gold" not in (await pages.get("/resources/autonomies")).text
        listed = await page(pages, "/resources", "NodeQOS")
        [row] = [line for line in listed.splitlines() if 'href="/resources/nodeqos">NodeQOS</a></th>' in line]
        assert row.strip().endswith('data-name="Documents">1</td></tr>')
    for database in databases.values():
        await database.close()
