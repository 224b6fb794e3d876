"""What a real installation recorded, replayed: reports go in by the bus, windows come out of history over REST."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from test_strategies_on_a_stack import node_event, publish, until
from tests.support.reports import pod_usage, received, report
from typer.testing import CliRunner
from whole_server import TOKEN, WholeServer, server

from slackwater.cli.main import app
from slackwater.events.envelope import Event

__all__ = ["server"]

MINUTES = 6


def told(node: str, minutes: int) -> list[Event[Any]]:
    """A report every five seconds, up to now."""
    first = datetime.now(UTC) - timedelta(minutes=minutes)
    count = minutes * 12
    return [
        received(report(node, n + 1, first + timedelta(seconds=5 * n), pods=[pod_usage("web")])).event
        for n in range(count)
    ]


def windows_of(client: httpx2.Client, node: str) -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    span = {"since": (now - timedelta(minutes=15)).isoformat(), "until": now.isoformat()}
    answer = client.get(f"/v1/nodes/{node}/windows", params=span)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_what_was_recorded_is_replayed_under_another_strategy(
    server: WholeServer, nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_SERVER", server.url)
    monkeypatch.setenv("SLACKWATER_TOKEN", TOKEN)
    publish(nats_url, node_event("replayed"), *told("replayed", MINUTES))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=server.url, headers=headers, trust_env=False, timeout=30) as client:
        until(lambda: len(windows_of(client, "replayed")) >= MINUTES - 2)
        windows = windows_of(client, "replayed")
    assert [pod["uid"] for pod in windows[0]["pods"]] == ["web"]
    numbers = [window["number"] for window in windows]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    bold = tmp_path / "bold.yaml"
    bold.write_text(
        "apiVersion: slackwater.io/v1alpha1\nkind: ColocationStrategy\nmetadata: {name: bold}\n"
        "spec: {cpuReclaimThresholdPercent: 95, memoryReclaimThresholdPercent: 95}\n"
    )
    page = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["simulate", "-f", str(bold), "--since", "15m", "-o", "json", "--html", str(page)])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert [one["name"] for one in answer["strategies"]] == ["in force", "bold"]
    assert answer["history"]["period_seconds"] == 60
    assert any("bold selects no node here" in note for note in answer["history"]["notes"])
    in_force, new = answer["strategies"]
    assert new["memory"]["batch_hours"] > in_force["memory"]["batch_hours"] > 0
    assert in_force["cpu"]["prod_hours"] == new["cpu"]["prod_hours"] > 0
    assert page.read_text().startswith("<!doctype html>")
