"""The example of docs/how-to/add-a-service.md on PostgreSQL: migrated, run, ready."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.postgres_server import FreshDatabase
from tests.support.windows import described

from slackwater.bus.admin.streams import ConsumerSpec, load
from slackwater.cli.composition import ServicePart
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database

EXAMPLE = Path(__file__).parents[2] / "unit" / "runtime" / "example_service"


async def test_the_example_is_migrated_and_runs(
    monkeypatch: pytest.MonkeyPatch, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    address = (await fresh_database(["tally"]))["tally"]
    spec = ConsumerSpec(event="node.described", partitioned=True)
    topology = load().model_copy(update={"consumers": {"tally-node-described": spec}})
    clock = SystemClock()
    bus, database = MemoryBus(MemoryBroker(clock=clock, topology=topology)), connect_database(address, "tally", clock)
    service = ServicePart("tally", has_schema=True).build(Platform(bus, clock, lambda _: database, tmp_path))
    ready = asyncio.Event()
    running = asyncio.create_task(service.run(ready.set))
    try:
        with anyio.fail_after(60):
            await ready.wait()
        await bus.publish(described("a"))
        await bus.idle()
        found = {check.name: (check.ok, check.detail) for check in await service.checks()}
        assert all(ok for ok, _ in found.values()), found
        assert found["tally-pools"] == (True, "1 pools")
        assert found["tally-shards"] == (True, "owns 8 of 8 partitions")
    finally:
        running.cancel()
        await asyncio.wait({running})
        await database.close()
