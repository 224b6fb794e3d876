"""A host application on its way through every service: in a report, in a window, in `describe` and in `why`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import Result
from tests.support.reports import host_app, pod_usage, report
from tests.support.windows import described, window
from typer.testing import CliRunner
from whole_server import TOKEN, WholeServer, server

from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.cli.main import app
from slackwater.events.envelope import Event, event_of
from slackwater.model.identifiers import new_id
from slackwater.model.tiers import Tier

__all__ = ["server"]

NODE = "hosting"
PATIENCE_SECONDS = 60.0
Do = Callable[..., Result]


@pytest.fixture
def do(server: WholeServer, monkeypatch: pytest.MonkeyPatch) -> Do:
    monkeypatch.setenv("SLACKWATER_SERVER", server.url)
    monkeypatch.setenv("SLACKWATER_TOKEN", TOKEN)
    return lambda *words: CliRunner().invoke(app, list(words))


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def publish(nats: str, *events: Event[Any]) -> None:
    async def tell() -> None:
        async with connect_bus(nats, name="test", declares=False) as bus:
            for event in events:
                await bus.publish(event)

    asyncio.run(tell())


def now(event: Event[Any], **changes: Any) -> Event[Any]:
    """As if it had just happened."""
    return event.model_copy(update={"id": new_id(), "data": event.data.model_copy(update=changes)})


def test_host_applications_are_distinguished_in_every_view(do: Do, nats_url: str) -> None:
    at = datetime.now(UTC)
    minute = at.replace(second=0, microsecond=0) - timedelta(minutes=1)
    apps = {("nginx", Tier.PROD): 700, ("yarn", Tier.BATCH): 900}
    told = report(
        NODE, 1, at, pods=[pod_usage("p")], host_apps=[host_app("nginx", cpu_milli=700), host_app("yarn", Tier.BATCH)]
    )
    publish(
        nats_url,
        now(described(NODE), described_at=at),
        event_of(told, source="agent", time=at),
        now(window(NODE, 0, {"p": 500}, host_apps=apps), window_start=minute),
    )
    until(lambda: "host_apps" in do("why", f"node/{NODE}", "batch-cpu").stdout)
    why = do("why", f"node/{NODE}", "batch-cpu").stdout
    assert "-0.700" in next(line for line in why.splitlines() if line.strip().startswith("host_apps"))
    assert "nginx (prod) 0.7 cores" in why
    until(lambda: "nginx (host, prod):" in do("describe", "node", NODE).stdout)
    assert "yarn (host, batch):     0.2 cores" in do("describe", "node", NODE).stdout
    usage = json.loads(do("get", "node", NODE, "-o", "json").stdout)["usage"]
    assert [app["name"] for app in usage["host_apps"]] == ["nginx", "yarn"]
