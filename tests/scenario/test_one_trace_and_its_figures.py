"""Six processes, one loop: every step from a report to its measured effect is in one trace, every line of their logs
is JSON, and together they show every metric of the reference page."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import grpc
import pytest
from otlp_receiver import Receiver, Seen, receiving
from tests.support.nats_server import purge_broker

from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.cli.offline_services import every_metric
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import Eviction, IntentDeclared
from slackwater.model.identifiers import new_id
from slackwater.runtime.service_list import service_names
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database
from slackwater.telemetry.spans import new_traceparent, trace_id_of
from slackwater.v1 import colocation_service_pb2 as messages
from slackwater.v1 import colocation_service_pb2_grpc as stubs

SERVICES = service_names()
PATIENCE_SECONDS = 60.0
TO_EFFECT = {
    "handle ingestion-usage-reported": "publish usage.reported",
    "handle ensurance-usage-reported": "publish usage.reported",
    "publish usage.reported": "agent report",
    "publish decision.recorded": "ensurance decide",
    "publish intent.declared": "ensurance decide",
    "agent converge": "publish intent.declared",
    "agent actuate": "agent converge",
    "publish intent.observed": "agent converge",
    "handle ensurance-intent-observed": "publish intent.observed",
    "ensurance measure effect": "ensurance decide",
    "publish effect.measured": "ensurance measure effect",
    "handle console-effect-measured": "publish effect.measured",
}
TO_DECISION = {"handle ensurance-usage-reported", "handle ensurance-waterline-crossed"}
"""An urgent report reaches ensurance by two ways; the first one decides."""
TO_OFFER = {
    "ingestion close window": "handle ingestion-usage-reported",
    "publish usage.windowed": "ingestion close window",
    "handle prediction-replay-usage-windowed": "publish usage.windowed",
    "publish peak.predicted": "handle prediction-replay-usage-windowed",
    "handle colocation-peak-predicted": "publish peak.predicted",
    "handle colocation-usage-windowed": "publish usage.windowed",
}
OFFER = {"agent report", "ingestion close window", "publish resources.offered", "handle console-resources-offered"}
TO_COMPLETION = {
    "agent evict": "agent converge",
    "publish eviction.completed": "agent evict",
    "handle ensurance-eviction-completed": "publish eviction.completed",
    "handle console-eviction-completed": "publish eviction.completed",
}
RPC = "slackwater.v1.ColocationService/GetNode"
QUIET_WITHOUT_FAULTS = {
    *("slackwater_agent_evictions_total", "slackwater_agent_leases_expired_total", "slackwater_quota_reclaim_seconds"),
    *("slackwater_bus_dead_letters_by_node_total", "slackwater_bus_dead_letters_dropped_total"),
    *("slackwater_bus_dead_letters_total", "slackwater_bus_publish_failures_total", "slackwater_bus_over_rate_total"),
    *("slackwater_bus_held_agents_total", "slackwater_bus_roster_missing_total"),
    *("slackwater_bus_unread_total", "slackwater_bus_unknown_values_total"),
    *("slackwater_ensurance_evictions_ended_total", "slackwater_ensurance_reports_ignored_total"),
    *("slackwater_ensurance_evictions_total", "slackwater_ensurance_evictions_repeated_total"),
    *("slackwater_ingestion_reports_refused_total", "slackwater_prediction_snapshots_total"),
    *("slackwater_service_restarts_total", "slackwater_state_quarantined_events_total"),
    "slackwater_http_closed_connections_total",
    "slackwater_ensurance_reversals_total",  # by pool
    "slackwater_quota_decisions_total",  # by the kind of decision; no claim here
    *("slackwater_descheduler_cycles_total", "slackwater_descheduler_proposed_pods_total"),  # no profile
    *("slackwater_descheduler_refused_pods_total", "slackwater_descheduler_measured_moves_total"),
    "slackwater_migration_steps_total",
    "slackwater_migration_jobs_ended_total",  # no move
    *("slackwater_followed_resources", "slackwater_unusable_resources"),  # no kind of ours is served as declared
    *("slackwater_prediction_coverage_ratio", "slackwater_prediction_stated_violation_ratio"),
}
"""Metrics with labels that get their first series with the first fault, eviction or hour, or with a rate stated in a
policy; what covers that is tests/unit/prediction."""


@dataclass(frozen=True)
class Story:
    """What six processes left behind."""

    traces: Mapping[str, Sequence[Seen]]
    logs: Mapping[str, str]
    pages: Mapping[str, str]
    decision: Mapping[str, object]
    eviction_trace: str
    rpc_trace: str


def environment(receiver: Receiver, dsn: str, nats: str, state_dir: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SLACKWATER_POSTGRES_DSN": dsn,
        "SLACKWATER_NATS_URL": nats,
        "SLACKWATER_STATE_DIR": str(state_dir),
        "SLACKWATER_LOG_LEVEL": "info",
        "SLACKWATER_INGESTION_WINDOW_SECONDS": "1",
        "SLACKWATER_INGESTION_LATENESS_SECONDS": "0.2",
        "SLACKWATER_INGESTION_REPORT_INTERVAL_SECONDS": "1",
        "SLACKWATER_PREDICTION_HISTOGRAM_UPDATE_SECONDS": "1",
        "SLACKWATER_PREDICTION_CHECK_SECONDS": "0.2",
        "SLACKWATER_PREDICTION_REPORTING_SECONDS": "0.2",
        "SLACKWATER_ENSURANCE_WATERLINE": "0.05",
        "SLACKWATER_ENSURANCE_QUOTA_AFTER_SECONDS": "0",
        "SLACKWATER_COLOCATION_RISE_WINDOWS": "1",
        "SLACKWATER_COLOCATION_AGE_CHECK_SECONDS": "1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }


def started(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    with log.open("w") as errors:
        return subprocess.Popen(
            [sys.executable, *command], env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def read(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return str(answer.read().decode())


def names(trace: Sequence[Seen]) -> set[str]:
    return {span.name for span in trace}


def whole(receiver: Receiver) -> str | None:
    """The id of a trace that has every step."""
    wanted = {"agent report", "ensurance decide", *TO_EFFECT, *TO_OFFER}
    return next((found for found, trace in receiver.traces().items() if wanted <= names(trace)), None)


async def prepared(dsn: str, nats: str) -> None:
    await prepare_database(dsn, [Schema.of(service) for service in SERVICES])
    async with connect_bus(nats, name="test", declares=False) as bus:
        await purge_broker(bus)
        await bus.declare()


async def eviction_asked(nats: str) -> str:
    """An eviction of an unknown pod, requested by a writer other than ensurance; returns its trace."""
    now, command = datetime.now(UTC), new_traceparent()
    item = Eviction(
        id="e1", pod_uid="nobody", grace_seconds=1.0, deadline=now + timedelta(hours=1), reason="test", decision_id="d"
    )
    intent = IntentDeclared(
        node="sim-01", writer="test", generation=1, declared_at=now, lease_seconds=600.0, evictions=(item,)
    )
    async with connect_bus(nats, name="test", declares=False) as bus:
        await bus.publish(event_of(intent, source="test", time=now, traceparent=command))
    return str(trace_id_of(command))


def node_asked_over_grpc(address: str) -> str:
    """A call within a trace of its caller; returns the trace."""
    parent = new_traceparent()
    with grpc.insecure_channel(address) as channel:
        answer = stubs.ColocationServiceStub(channel).GetNode(
            messages.GetNodeRequest(name="sim-01"), metadata=(("traceparent", parent),), timeout=PATIENCE_SECONDS
        )
    assert answer.node.name == "sim-01"
    return str(trace_id_of(parent))


@pytest.fixture(scope="module")
def story(postgres_dsn: str, nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("trace")
    dsn = urlunsplit(urlsplit(postgres_dsn)._replace(path="/test_trace_" + new_id().replace("-", "")))
    loop = asyncio.new_event_loop()  # asyncio.run would unset the loop that pytest-asyncio has set
    loop.run_until_complete(prepared(dsn, nats_url))
    with receiving() as receiver, ExitStack() as running:
        given = environment(receiver, dsn, nats_url, folder)
        logs = {name: folder / f"{name}.log" for name in (*SERVICES, "agent")}
        processes = {
            name: started(["-m", "slackwater.cli", "run", name, "--port", "0"], logs[name], given) for name in SERVICES
        }
        for process in processes.values():
            running.callback(stop, process)
        urls = {name: address(process) for name, process in processes.items()}
        program = str(Path(__file__).with_name("simulated_agent.py"))
        agent = started([program, nats_url, str(folder)], logs["agent"], given)
        running.callback(stop, agent)
        urls["agent"] = address(agent)
        until(lambda: whole(receiver) is not None, "no trace had every step")
        until(
            lambda: any(names(trace) >= OFFER for trace in receiver.traces().values()), "no offer in a report's trace"
        )
        eviction_trace = loop.run_until_complete(eviction_asked(nats_url))
        loop.close()
        rpc_trace = node_asked_over_grpc(address(processes["console"]))
        until(lambda: TO_COMPLETION.keys() <= names(receiver.traces()[eviction_trace]), "no trace of the eviction")
        trace_id = whole(receiver)
        found = next(s for s in receiver.traces()[str(trace_id)] if s.name == "ensurance decide")
        decision = json.loads(read(f"{urls['console']}/v1/decisions/{found.attributes['slackwater.decision_id']}"))
        until(
            lambda: "slackwater_bus_lag_messages{" in read(f"{urls['ensurance']}/metrics"),
            "the consumers were not sampled",
        )
        pages = {name: read(f"{url}/metrics") for name, url in urls.items()}
        running.close()  # what is left in the processes is exported on their way out
        written = {name: log.read_text() for name, log in logs.items()}
        yield Story(receiver.traces(), written, pages, decision, eviction_trace, rpc_trace)


def address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the process ended before it said where it listens"
    return line.split()[1]


@pytest.mark.timeout(240)
def test_one_trace_goes_from_the_report_to_the_effect_and_to_the_prediction(story: Story) -> None:
    wanted = {"agent report", "ensurance decide", *TO_EFFECT, *TO_OFFER}
    trace = next(trace for trace in story.traces.values() if wanted <= names(trace))
    by_id = {span.span_id: span for span in trace}
    roots = [span for span in trace if not span.parent_id]
    assert [root.name for root in roots] == ["agent report"]
    assert roots[0].service == "slackwater-agent"
    for name, parent in {**TO_EFFECT, **TO_OFFER}.items():
        parents = {by_id[span.parent_id].name for span in trace if span.name == name}
        assert parent in parents, (name, parents)
    assert {by_id[span.parent_id].name for span in trace if span.name == "ensurance decide"} <= TO_DECISION
    concerned = {*SERVICES, "agent"} - {"quota", "descheduler", "migration"}  # claims and moves have their own traces
    assert {span.service for span in trace} >= {f"slackwater-{name}" for name in concerned}
    assert not [span for span in trace if span.failed]


@pytest.mark.timeout(240)
def test_the_end_of_an_eviction_is_in_the_trace_of_its_command(story: Story) -> None:
    trace = story.traces[story.eviction_trace]
    by_id = {span.span_id: span for span in trace}
    for name, parent in TO_COMPLETION.items():
        assert {by_id[span.parent_id].name for span in trace if span.name == name} == {parent}
    assert {span.service for span in trace} >= {"slackwater-agent", "slackwater-ensurance", "slackwater-console"}


def test_a_call_over_grpc_is_a_step_of_its_callers_trace_and_counted(story: Story) -> None:
    [call] = story.traces[story.rpc_trace]
    assert (call.name, call.service, call.failed) == (RPC, "slackwater-console", False)
    assert f'slackwater_rpc_calls_total{{code="OK",method="{RPC}"}} 1.0' in story.pages["console"]


def test_spans_say_which_node_and_which_decision(story: Story) -> None:
    spans = [span for trace in story.traces.values() for span in trace]
    for span in spans:
        if span.name in {
            "agent report",
            "agent converge",
            "agent actuate",
            "ensurance decide",
            "ingestion close window",
        }:
            assert span.attributes["slackwater.node"] == "sim-01", span
        if span.name in {"ensurance decide", "ensurance measure effect"}:
            assert span.attributes["slackwater.decision_id"]
        assert len(span.attributes) <= 12


def test_an_offer_is_in_the_trace_of_a_report(story: Story) -> None:
    assert any(names(trace) >= OFFER for trace in story.traces.values())


def test_a_decision_has_its_trace(story: Story) -> None:
    record = story.decision.get("record", story.decision)
    assert isinstance(record, dict)
    assert record["trace_id"] in story.traces
    decided = [span for span in story.traces[record["trace_id"]] if span.name == "ensurance decide"]
    assert record["id"] in {span.attributes["slackwater.decision_id"] for span in decided}


def test_every_log_line_is_json_with_time_service_and_event(story: Story) -> None:
    lines = [(name, line) for name, log in story.logs.items() for line in log.splitlines() if not _step(line)]
    assert {name for name, _ in lines} >= {"prediction", "agent"}
    for name, line in lines:
        entry = json.loads(line)
        assert {"time", "level", "service", "event"} <= entry.keys(), line
        assert entry["service"] == name
        assert ("trace_id" in entry) == ("span_id" in entry)


def _step(line: str) -> bool:
    """The steps that `run` prints for its operator (slackwater.cli.steps) are no log."""
    return not line.startswith("{") and bool(re.match(r"\s*(✓|\[|ok|[a-zA-Z ]+ +\d)", line))


def test_together_they_show_every_metric_of_the_reference_page(story: Story) -> None:
    # The service `kubernetes` runs in clusters only; tests/kubernetes reads its figures.
    known = {metric.name for metric in every_metric() if not metric.name.startswith("slackwater_kubernetes_")}
    shown = {
        name: set(re.findall(r"^# TYPE (slackwater_\w+) ", page, re.MULTILINE)) for name, page in story.pages.items()
    }
    assert set().union(*shown.values()) == known
    measured = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for page in story.pages.values()
        for name in re.findall(r"^(slackwater_\w+)[{ ]", page, re.MULTILINE)
    }
    assert known - measured <= QUIET_WITHOUT_FAULTS
    assert 'slackwater_loop_latency_seconds_count{stage="effect"}' in story.pages["ensurance"]
    assert "slackwater_agent_tick_seconds_count" in story.pages["agent"]
