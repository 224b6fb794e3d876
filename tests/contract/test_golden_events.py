"""Events written by an earlier state of the code can still be read, and schemas only grow."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from compatibility import breaks
from samples import sample_of

from slackwater.bus.codec.cloudevents import decode, encode
from slackwater.events.envelope import Payload
from slackwater.events.registry import BROADCASTS, EVENTS
from slackwater.events.report_columns import ReportColumns

GOLDEN = Path(__file__).parent / "golden"
events = pytest.mark.parametrize("payload", [*EVENTS, *BROADCASTS], ids=lambda payload: payload.TYPE)


def golden(payload: type[Payload]) -> dict[str, Any]:
    file = GOLDEN / f"{payload.TYPE}.v{payload.VERSION}.json"
    assert file.exists(), f"{file.name} is missing: run tests/contract/make_golden.py"
    document: dict[str, Any] = json.loads(file.read_text())
    return document


@events
def test_a_golden_event_is_read_and_every_field_of_it_survives(payload: type[Payload]) -> None:
    kept = golden(payload)
    event = decode(payload, kept["headers"], json.dumps(kept["body"]).encode())
    again = encode(event)
    assert again.subject == kept["subject"]
    assert dict(again.headers) == kept["headers"]
    assert _holds(json.loads(again.body), kept["body"])


def _holds(now: Any, then: Any) -> bool:
    """Everything that was said then is said now; more may be said."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(name in now and _holds(now[name], then[name]) for name in then)
    if isinstance(then, list):
        return isinstance(now, list) and len(now) == len(then) and all(map(_holds, now, then))
    return bool(now == then)


@events
def test_schemas_only_grow(payload: type[Payload]) -> None:
    found = breaks(golden(payload)["schema"], payload.wire().model_json_schema(mode="validation"))
    assert not found, f"{payload.TYPE}: raise VERSION for an incompatible change: {found}"


@events
def test_a_sample_has_every_field(payload: type[Payload]) -> None:
    assert sample_of(payload).keys() == payload.wire().model_fields.keys()


SCHEMA = ReportColumns.model_json_schema(mode="validation")


def changed(change: Any) -> dict[str, Any]:
    schema = copy.deepcopy(SCHEMA)
    change(schema)
    return schema


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: s["properties"].pop("node"), ".node: removed"),
        (lambda s: s["properties"].update(nodes=s["properties"].pop("node")), ".node: removed"),
        (lambda s: s["required"].append("pods"), ".pods: newly required"),
        (lambda s: s["properties"]["sequence"].update(type="string"), ".sequence: type was"),
        (lambda s: s["$defs"]["UnreadLimit"]["properties"].pop("reason"), ".pods.unread[].reason: removed"),
        (lambda s: s["properties"]["trigger"]["enum"].remove("interval"), ".trigger: values removed"),
        (lambda s: s["properties"].update(system_usage={"$ref": "#/$defs/Usage"}), ".system_usage: type was"),
    ],
)
def test_a_breaking_change_is_found(change: Any, expected: str) -> None:
    assert any(found.startswith(expected) for found in breaks(SCHEMA, changed(change)))


def test_an_optional_field_more_breaks_nothing() -> None:
    assert breaks(SCHEMA, changed(lambda s: s["properties"].update(later={"type": "string"}))) == []
