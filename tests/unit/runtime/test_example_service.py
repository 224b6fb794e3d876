"""The example of docs/how-to/add-a-service.md: it is built, runs, is ready, answers, and is seen in the metrics."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx2
import pytest
from prometheus_client import REGISTRY
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock
from tests.support.scene import Scene
from tests.support.windows import described

from slackwater.bus.admin.streams import ConsumerSpec, load
from slackwater.cli.composition import ServicePart
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings
from slackwater.runtime.supervisor import Supervisor

ROOT = Path(__file__).parents[3]
EXAMPLE = Path(__file__).parent / "example_service"
HANDLED = "slackwater_bus_messages_total"
PAGE = ROOT / "docs" / "how-to" / "add-a-service.md"


async def test_a_service_is_its_package_and_its_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    topology, spec = load(), ConsumerSpec(event="node.described", partitioned=True)
    topology = topology.model_copy(update={"consumers": {**topology.consumers, "tally-node-described": spec}})
    clock = FakeClock()
    bus = MemoryBus(MemoryBroker(clock=clock, topology=topology))
    service = ServicePart("tally", has_schema=True).build(Scene(clock, bus).platform)
    supervisor = Supervisor([service], clock=clock)
    labels = {"consumer": "tally-node-described", "result": "done"}
    before = REGISTRY.get_sample_value(HANDLED, labels) or 0.0  # the process may have run the example before
    running = asyncio.create_task(supervisor.run())
    try:
        await clock.advance(1)
        for node in ("a", "b", "c"):
            await bus.publish(described(node))
        await clock.advance(1)
        app = build_app(service.routers(), supervisor.checks, HttpSettings.local())
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.get("/v1/tally")).json() == {"pools": {"default": 3}}
            assert (await client.get("/v1/quarantine/tally")).json() == {"items": []}
            ready = await client.get("/readyz?verbose")
            metrics = (await client.get("/metrics")).text
        assert ready.status_code == 200
        checks = re.findall(r"^\[\+\]([a-z-]+) ok", ready.text, re.MULTILINE)
        assert checks == [*("tally", "tally-bus", "tally-database", "tally-pools", "tally-quarantine", "tally-shards")]
        assert 'slackwater_ownership_partitions{service="tally"} 8.0' in metrics
        assert f'{HANDLED}{{consumer="tally-node-described",result="done"}} {before + 3}' in metrics
    finally:
        running.cancel()
        await asyncio.wait({running})


def test_the_page_lists_every_file_of_the_example_and_no_other() -> None:
    files = {str(file.relative_to(EXAMPLE / "slackwater" / "tally")) for file in EXAMPLE.rglob("*.py")}
    files = {file for file in files if file == "__init__.py" or not file.endswith("/__init__.py")}
    _, _, after = PAGE.read_text().partition("Files of `services/slackwater/NAME/`:")
    listed = re.findall(r"`([\w/]+\.py)`", after.partition("\nEntries")[0])
    assert set(listed) == files
    assert len(listed) == len(files)
