"""A replica of the older version refuses types that it does not know, and reads what has unknown fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.clock import EPOCH
from tests.support.postgres_twin.values import Json
from tests.support.reports import pod_usage, report
from tests.world import versions
from tests.world.plan import Plan, PlannedFault, replicas
from tests.world.processes import PROCESS
from tests.world.run import Child, perform

from slackwater.bus.codec.decoder import decode_payload
from slackwater.bus.connect import nats_bus
from slackwater.events import serialized
from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.serialized import UNKNOWN_TYPE
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import InvalidInput
from slackwater.store import outbox, outbox_rows


def under_each_version(work: Callable[[], Any]) -> dict[str, Any]:
    """The results of `work` in a process of each version."""

    def both() -> dict[str, Any]:
        versions.install()
        found = {}
        for name, is_older in (("older", True), ("newer", False)):
            context = copy_context()
            context.run(PROCESS.set, SimpleNamespace(is_older=is_older))  # type: ignore[arg-type]
            found[name] = context.run(work)
        return found

    return Child(both).result()


def types_and_refusal() -> tuple[bool, str]:
    knows = "resource.changed.v1" in outbox.known_types()
    try:
        outbox_rows.payload_of("resource.changed.v1")
    except InvalidInput as error:
        return knows, error.message
    return knows, ""


def test_the_older_version_refuses_rows_of_a_type_as_its_relay_would() -> None:
    found = under_each_version(types_and_refusal)
    assert found["newer"] == (True, "")
    knows, refusal = found["older"]
    assert not knows
    assert refusal.endswith(UNKNOWN_TYPE)


EVICTION = (
    b'{"node":"n","id":"d-1","decision_id":"d","writer":"ensurance","pod_uid":"a","outcome":"killed",'
    b'"completed_at":"2026-01-05T00:00:00Z","started_at":null}'
)


def fields_read() -> tuple[bool, str]:
    row = Json({"limits": 1}).copy()
    resource = Json({"spec": {}}).copy()
    assert resource == {"spec": {}}
    return "fieldOfTheNewerVersion" in row, decode_payload(EvictionCompleted, EVICTION).pod_uid


def test_the_older_version_reads_rows_and_events_with_fields_it_does_not_know() -> None:
    assert under_each_version(fields_read) == {"older": (True, "a"), "newer": (False, "a")}


def report_read_and_written() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Two fields of a report and of its pod, as a reader of this version sees them and as its agents write them."""
    pod = replace(pod_usage("a"), unread="read_refused", memory_high_bytes=1 << 20)
    sent = report("n", 1, EPOCH, pods=[pod]).model_copy(update={"intent_declared_at": EPOCH, "alone": True})
    event = event_of(sent, source="n", time=EPOCH)
    body = serialized.written(event).body
    seen = decode_payload(UsageReported, body.encode())
    made = json.loads(vars(nats_bus)["written"](event).body)
    [seen_pod], columns = seen.pods, made["pods"]
    return (
        (seen.intent_declared_at, seen.alone, seen_pod.unread, seen_pod.memory_high_bytes),
        ("intent_declared_at" in made, made["alone"], columns["unread"][0]["reason"], "memory_high_bytes" in columns),
    )


def test_the_older_version_writes_and_reads_reports_of_an_earlier_schema() -> None:
    found = under_each_version(report_read_and_written)
    assert found["newer"][0] == (EPOCH, True, "read_refused", 1 << 20)
    assert found["newer"][1] == (True, True, "read_refused", True)
    assert found["older"][0] == (None, True, None, None)
    assert found["older"][1] == (False, True, "read_refused", False)


def test_fields_that_the_older_version_lacks_are_in_no_golden_event() -> None:
    golden = Path(__file__).parents[2] / "contract" / "golden"
    for payload, later in versions.LATER_FIELDS.items():
        earliest = json.loads((golden / f"{payload.TYPE}.v{payload.VERSION}.json").read_text())["schema"]
        assert later <= payload.wire().model_fields.keys()
        assert not later & earliest["properties"].keys()


def test_replicas_are_replaced_one_by_one_and_back() -> None:
    roll = PlannedFault("rolled to an older version", "ensurance", 10.0, 10.0, 2.001)
    plan = Plan(3, nodes=1, clients=0, fault_seconds=30.0, quiet_seconds=10.0, rest_seconds=2.0, faults=(roll,))
    outcome = Child(lambda: perform(plan)).result()
    assert outcome.failure == ""
    assert outcome.counts["process.started"] == len(replicas(plan)) + plan.nodes + 2 * plan.replicas
