"""A ColocationStrategy on the way of an operator: tried, applied, seen in offers, events and `why`, on real servers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import Result
from tests.support.windows import described, window
from typer.testing import CliRunner
from whole_server import ADMIN, TOKEN, WholeServer, server

from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.cli.main import app
from slackwater.events.envelope import Event
from slackwater.model.identifiers import new_id

__all__ = ["server"]

PATIENCE_SECONDS = 60.0
STRATEGY = """
apiVersion: slackwater.io/v1alpha1
kind: ColocationStrategy
metadata: {name: quiet}
spec: {nodeSelector: {matchLabels: {role: quiet}}, cpuReclaimThresholdPercent: 40}
"""
Do = Callable[..., Result]


def now(event: Event[Any], **changes: Any) -> Event[Any]:
    """As if it had just happened."""
    return event.model_copy(update={"id": new_id(), "data": event.data.model_copy(update=changes)})


def node_event(name: str, **facts: Any) -> Event[Any]:
    event = described(name)
    return now(event, facts=replace(event.data.facts, **facts), described_at=datetime.now(UTC))


def publish(nats: str, *events: Event[Any]) -> None:
    async def tell() -> None:
        async with connect_bus(nats, name="test", declares=False) as bus:
            for event in events:
                await bus.publish(event)

    asyncio.run(tell())


@pytest.fixture
def do(server: WholeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    monkeypatch.setenv("SLACKWATER_SERVER", server.url)
    monkeypatch.setenv("SLACKWATER_TOKEN", TOKEN)
    file = tmp_path / "strategy.yaml"
    file.write_text(STRATEGY)

    def run(verb: str, *words: str) -> Result:
        document = ("-f", str(file)) if verb in ("apply", "delete", "diff") else ()
        done = CliRunner().invoke(app, [verb, *document, *words])
        assert done.exit_code == 0, done.output
        return done

    return run


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def offer_of(do: Do, node: str) -> dict[str, Any]:
    items = json.loads(do("get", "offers", "-o", "json").stdout)["items"]
    return next((item for item in items if item["node"] == node), {})


def generation_of(do: Do, name: str) -> int:
    """Its database is that of all tests of the lane: others may have changed the cluster's document before."""
    return int(json.loads(do("get", "colocationstrategy", name, "-o", "json").stdout)["metadata"]["generation"])


def page(server: WholeServer, path: str) -> str:
    """Of the console."""
    answer = httpx2.get(server.url + path, headers=ADMIN)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_strategy_is_tried_applied_and_explained(server: WholeServer, do: Do, nats_url: str) -> None:
    minute = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=1)
    labels = {"role": "quiet"}
    publish(nats_url, node_event("still", labels=labels), now(window("still", 0, {"p": 500}), window_start=minute))
    until(lambda: bool(offer_of(do, "still")))
    before = offer_of(do, "still")["batch"]["cpu_milli"]
    assert before == 2500

    tried = json.loads(do("apply", "--dry-run=server", "-o", "json").stdout)["offers"]["nodes"]
    (mine,) = [one for one in tried if one["node"] == "still"]
    assert (mine["before"]["batch"]["cpu_milli"], mine["after"]["batch"]["cpu_milli"]) == (before, 900)
    assert offer_of(do, "still")["batch"]["cpu_milli"] == before

    assert do("apply").stdout == "colocationstrategy/quiet created\n"
    until(lambda: offer_of(do, "still")["batch"]["cpu_milli"] == 900)
    until(lambda: "offer_strategy_changed" in do("why", "node/still", "batch-cpu").stdout)
    followed = f"cluster@{generation_of(do, 'default')}, pool/quiet@{generation_of(do, 'quiet')}"
    assert followed in do("why", "node/still", "batch-cpu").stdout

    until(lambda: "pool/quiet@" in page(server, "/strategies?node=still"))
    assert "role=quiet" in page(server, "/strategies"), "the console received the document itself"
    told = json.loads(do("why", "node/still", "batch-cpu", "-o", "json").stdout)
    since = next(one["observed_at"] for one in told["inputs"] if one["name"] == "reclaim_threshold")
    assert minute < datetime.fromisoformat(since) <= datetime.now(UTC), "when the strategy was accepted"

    publish(nats_url, node_event("still", labels=labels | {"slackwater.io/cpu-reclaim-ratio": "much"}))
    until(lambda: "'much' is no ratio" in do("why", "node/still", "batch-cpu").stdout)
    assert offer_of(do, "still")["batch"]["cpu_milli"] == 900
    events = do("events", "-t", "strategy.checked", "--since", "5m").stdout
    assert "still" in events
    assert f"'much' is no ratio; a number from 0, like 0.65; applied: {followed}" in events
    assert "  still: label slackwater.io/cpu-reclaim-ratio" in do("describe", "colocationstrategy", "quiet").stdout
