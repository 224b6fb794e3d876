"""get, describe and why against a real server on loopback with the story's read model behind it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvicorn
import yaml
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from slackwater.cli import get, output, why
from slackwater.cli.main import app
from slackwater.console.adapters.feed import LocalFeed
from slackwater.console.adapters.memory import MemoryReadModel
from slackwater.console.edge.events import routes
from slackwater.console.service import routers_of
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.model.errors import InvalidInput
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings
from slackwater.testing.clock import FakeClock
from slackwater.testing.story import FLEET, SURGE, identifier, story

THROTTLE = identifier("edge-7", "throttle", SURGE[0] + 25)


async def _no_checks() -> list[Any]:
    return []


def told(clock: FakeClock, feed: LocalFeed) -> MemoryReadModel:
    model, days = MemoryReadModel(), timedelta(days=1)
    handlers = routes(RecordEvents(model, feed, clock, usage_retention=days, decision_retention=days))
    for event in story(clock.now()):
        with pytest.raises(StopIteration):  # it waits for nothing, so one step runs it to its end
            handlers[type(event.data)]([event]).__await__().__next__()
    return model


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server in a thread of its own: the commands are synchronous and own no loop."""
    clock, feed = FakeClock(datetime(2026, 1, 5, 10, tzinfo=UTC)), LocalFeed()
    application = build_app(
        routers_of(told(clock, feed), feed, clock), _no_checks, HttpSettings(host="127.0.0.1", port=0)
    )
    running = uvicorn.Server(uvicorn.Config(application, port=0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    running.should_exit = True
    thread.join()


@pytest.fixture
def run(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SLACKWATER_SERVER", server)
    runner = CliRunner()

    def call(*arguments: str, status: int = 0) -> Result:
        result = runner.invoke(app, list(arguments))
        assert result.exit_code == status, (result.output, result.exception)
        return result

    return call


def test_get_nodes_prints_a_table_with_a_line_per_node(run: Any) -> None:
    lines = run("get", "nodes").stdout.splitlines()
    assert lines[0].split()[:3] == ["NAME", "LIVENESS", "CPU"]
    assert [line.split()[0] for line in lines[1:]] == sorted(node.name for node in FLEET)
    assert not any(line != line.rstrip() for line in lines)


def test_no_headers_leaves_only_rows_and_wide_adds_columns(run: Any) -> None:
    plain, wide = run("get", "nodes", "--no-headers").stdout, run("get", "nodes", "-o", "wide").stdout
    assert "LIVENESS" not in plain
    assert len(plain.splitlines()) == len(FLEET)
    assert "6.1.0-28-amd64" in wide
    assert "6.1.0-28-amd64" not in plain


@pytest.mark.parametrize("form", [("nodes", "edge-7"), ("node/edge-7",), ("no", "edge-7"), ("nodes/edge-7",)])
def test_every_way_to_name_a_node_gives_the_api_object(run: Any, form: tuple[str, ...]) -> None:
    found = json.loads(run("get", *form, "-o", "json").stdout)
    assert (found["name"], found["facts"]["capacity"]["cpu_milli"]) == ("edge-7", 8000)


def test_json_and_yaml_hold_the_same(run: Any) -> None:
    assert json.loads(run("get", "offers", "-o", "json").stdout) == yaml.safe_load(
        run("get", "offers", "-o", "yaml").stdout
    )


def test_pods_and_decisions_are_narrowed_to_a_node(run: Any) -> None:
    pods = json.loads(run("get", "pods", "--node", "edge-8", "-o", "json").stdout)["items"]
    assert {pod["node"] for pod in pods} == {"edge-8"}
    decisions = json.loads(run("get", "decisions", "--node", "edge-7", "--limit", "3", "-o", "json").stdout)["items"]
    assert [each["node"] for each in decisions] == ["edge-7"] * 3


def test_what_is_not_known_is_told_on_stderr_with_the_neighbour(run: Any) -> None:
    result = run("get", "node/edge-77", status=1)
    assert result.stdout == ""
    assert "did you mean 'edge-7'" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "did you mean 'node" in run("get", "nodez", status=2).stderr
    run("get", "node/edge-7", "edge-8", status=2)


def test_describe_shows_facts_pods_and_decisions(run: Any) -> None:
    text = run("describe", "node", "edge-7").stdout
    for part in ("8 cores", "cgroup v2", "checkout-0", "Last decisions:", "restore"):
        assert part in text
    assert set(json.loads(run("describe", "node/edge-7", "-o", "json").stdout)) == {"node", "pods", "decisions"}
    run("describe", "pod", "x", status=2)


def test_why_prints_a_sum_that_a_reader_can_redo(run: Any) -> None:
    text = run("why", "node/edge-7", "batch-cpu").stdout
    assert "the terms add up" in text
    body = json.loads(run("why", "node/edge-7", "-o", "json").stdout)
    assert sum(row["value"] for row in body["waterfall"]) == body["result"]
    assert all(row["name"] in text for row in body["waterfall"])


def test_why_takes_a_time_in_the_past(run: Any) -> None:
    now = json.loads(run("why", "node/edge-7", "-o", "json").stdout)
    then = json.loads(run("why", "node/edge-7", "batch-cpu", "--at", "-6m", "-o", "json").stdout)
    iso = json.loads(run("why", "node/edge-7", "--at", "2026-01-05T09:54:00Z", "-o", "json").stdout)
    assert then["result"] < now["result"]
    assert then["record"] == iso["record"]
    assert "allowed" in run("why", "node/edge-7", "--at", "noon", status=2).stderr


def test_why_of_a_decision_is_its_chain_in_order(run: Any) -> None:
    text = run("why", f"decision/{THROTTLE}").stdout
    places = [
        text.index(kind) for kind in ("usage.reported", "decision.recorded", "intent.observed", "effect.measured")
    ]
    assert places == sorted(places)
    assert json.loads(run("why", f"decision/{THROTTLE}", "-o", "json").stdout)["complete"] is True


def test_colour_stays_out_of_pipes(run: Any) -> None:
    assert "\x1b" not in run("why", "node/edge-7").stdout + run("get", "nodes").stdout


def test_a_server_that_is_not_there_is_one_clear_line(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKWATER_SERVER", "http://127.0.0.1:9")
    result = run("get", "nodes", status=1)
    assert "no answer from http://127.0.0.1:9" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("word", "path"), [("po", "/v1/pods"), ("Decisions", "/v1/decisions"), ("offer", "/v1/offers")]
)
def test_nouns_have_short_and_single_forms(word: str, path: str) -> None:
    assert get.kind_of(word).path == path


def test_a_name_is_given_once() -> None:
    assert get.split_target("node/a", None) == ("node", "a")
    with pytest.raises(InvalidInput, match="once"):
        get.split_target("node/a", "b")


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_text_bar_keeps_its_width_and_shows_every_change(before: int, after: int, below: int, above: int) -> None:
    low, high = min(before, after) - below, max(before, after) + above
    drawn = why.bar(before, after, low, high, cells=20)
    assert len(drawn) == 20
    assert (drawn.strip() == "") == (before == after)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")])
def test_ages_are_short(seconds: int, text: str) -> None:
    now = datetime(2026, 1, 5, tzinfo=UTC)
    assert output.age((now - timedelta(seconds=seconds)).isoformat(), now) == text
