"""What a real installation recorded, replayed under another policy: reports go in by the bus, windows, pressure and the
documents in force come out over REST."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from test_simulate_on_a_stack import MINUTES, windows_of
from test_strategies_on_a_stack import node_event, publish, until
from tests.support.reports import GIB, pod_usage, received, report
from typer.testing import CliRunner
from whole_server import TOKEN, WholeServer, server

from slackwater.cli.main import app
from slackwater.events.envelope import Event
from slackwater.events.measures import Pressure
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier

__all__ = ["server"]

NODE = "guarded-again"
POLICY = """
apiVersion: slackwater.io/v1alpha1
kind: NodeQOS
metadata: {name: guarded-again}
spec:
  selector: {matchLabels: {role: guarded-again}}
  rules:
    - {name: cpu, metricRule: {name: node_cpu_usage_ratio, value: 60%}, coolDownSeconds: 20, actionName: throttle}
---
apiVersion: slackwater.io/v1alpha1
kind: Autonomy
metadata: {name: guarded-again}
spec: {mode: throttle}
"""
"""The pool's own mode: that of the cluster is whatever the tests before this one left."""


def told(minutes: int) -> list[Event[Any]]:
    """A report every five seconds, up to now: prod uses 1, batch 2 of 4 cores; prod waits a little."""
    first = datetime.now(UTC) - timedelta(minutes=minutes)
    pods = [pod_usage("web", cpu_milli=1000), pod_usage("crunch", Tier.BATCH, cpu_milli=2000)]
    events = []
    for number in range(minutes * 12):
        said = report(NODE, number + 1, first + timedelta(seconds=5 * number), cpu_milli=3200, pods=pods)
        events.append(received(said.model_copy(update={"prod_pressure": Pressure(0.04, 0.04, 0.04)})).event)
    return events


def test_what_was_recorded_is_replayed_under_another_policy(
    server: WholeServer, nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_SERVER", server.url)
    monkeypatch.setenv("SLACKWATER_TOKEN", TOKEN)
    described = node_event(NODE, pool=NODE, labels={"role": NODE}, capacity=Resources(4000, 8 * GIB))
    publish(nats_url, described, *told(MINUTES))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=server.url, headers=headers, trust_env=False, timeout=30) as client:
        until(lambda: len(windows_of(client, NODE)) >= MINUTES - 2)
        until(lambda: bool(client.get(f"/v1/nodes/{NODE}/usage", params={"since": "15m"}).json()["items"]))

    file, page = tmp_path / "strict.yaml", tmp_path / "report.html"
    file.write_text(POLICY)
    arguments = ["simulate", "-f", str(file), "--since", "15m"]
    done = CliRunner().invoke(app, [*arguments, "-o", "json", "--html", str(page)])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["schema"] == "slackwater.policy-simulation/1"
    assert [one["name"] for one in answer["policies"]] == ["in force", "strict"]
    in_force, strict = answer["policies"]
    assert {document["kind"] for document in in_force["documents"]} >= {"NodeQOS"}
    (before,), (after,) = ([each for each in one["waterlines"] if each["value"] == "0.6"] for one in (in_force, strict))
    assert before["nodes"] == 1, "the selector's"
    assert before["share"] == 1
    assert after["seconds"] < before["seconds"] / 5
    assert strict["throttle_seconds"] > in_force["throttle_seconds"]
    assert strict["throttled_core_seconds"] > 0
    assert strict["actions"]["throttle_waterline_crossed"]["pods"] >= 1
    (pressure,) = [each for each in in_force["waterlines"] if each["metric"] == "prod_cpu_pressure"]
    assert pressure["nodes"] >= 1, "as it was reported"
    assert page.read_text().startswith("<!doctype html>")
    table = CliRunner().invoke(app, arguments)
    assert table.exit_code == 0, table.output
    assert "node_cpu_usage_ratio 60%, s" in table.stdout
