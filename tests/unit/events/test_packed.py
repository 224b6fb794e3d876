"""Large parts of a decision travel packed, and arrive whole; what is malformed or too large is refused."""

from __future__ import annotations

import base64
import json
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Replay, Term
from slackwater.events import decision_recorded
from slackwater.events.codec.body import Undecodable, decode_body
from slackwater.events.codec.packed import pack, packed_if_smaller, unpack
from slackwater.events.decision_recorded import PACKED_FROM_BYTES, DecisionRecorded

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda parts: st.lists(parts, max_size=5) | st.dictionaries(texts, parts, max_size=5),
    max_leaves=30,
)


def recorded(alternatives: int, arguments: dict[str, Any] | None = None) -> DecisionRecorded:
    return DecisionRecorded(
        record=DecisionRecord(
            id="d1", kind=DecisionKind.THROTTLE, node="n1", subject="cpu", service="ensurance", rule="prod-cpu",
            reason=Reason.THROTTLE_WATERLINE_CROSSED, decided_at=datetime(2026, 1, 1, tzinfo=UTC),
            trigger_event_id=None, inputs=(), terms=(Term(name="a", value=1),), result=1, unit="milli-cores",
            alternatives=tuple(
                Alternative(what=f"pod p{one}", rejected_because="not allowed") for one in range(alternatives)
            ),
            replay=Replay(function="m:f", arguments=arguments or {}),
        )
    )  # fmt: skip


@given(values)
def test_what_is_packed_comes_back(value: Any) -> None:
    text = pack(json.dumps(value).encode())
    assert unpack(text) == value


@given(st.integers(0, 200), st.dictionaries(texts, values, max_size=3))
def test_a_record_arrives_whole_in_either_form(alternatives: int, arguments: dict[str, Any]) -> None:
    event = recorded(alternatives, arguments)
    plain = json.dumps({"record": event.record.model_dump(mode="json")}).encode()
    sent = event.body().encode()
    assert decode_body(DecisionRecorded, sent) == decode_body(DecisionRecorded, plain) == event


def test_only_large_parts_are_packed_and_take_less_room() -> None:
    small, large = (json.loads(recorded(number).body()) for number in (3, 100))
    assert "packed" not in small
    assert len(small["record"]["alternatives"]) == 3
    assert large["record"]["alternatives"] == []
    assert len(large["packed"]) < PACKED_FROM_BYTES


def policies(expressions: int, *, namespace: str = "namespace-{}") -> dict[str, Any]:
    """The policies of a PodQOS with so many expressions."""
    return {"pods": [{"values": [namespace.format(number)], "operator": "NotIn"} for number in range(expressions)]}


@pytest.mark.parametrize("alternatives", [0, 100])
@pytest.mark.parametrize("shared", [policies(2000), policies(3000, namespace="same"), policies(1)])
def test_policies_that_many_records_share_are_packed_alone_and_once(
    alternatives: int, shared: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[int] = []

    def counted(body: bytes) -> str:
        packed.append(len(body))
        return packed_if_smaller(body)

    monkeypatch.setattr(decision_recorded, "packed_if_smaller", counted)
    replay = Replay(function="m:f", arguments={"now": "2026-01-01"}).sharing({"policies": shared})
    event = recorded(alternatives).model_copy()
    event = DecisionRecorded(record=event.record.model_copy(update={"replay": replay}))
    bodies = [event.body() for _ in range(3)]
    assert len(set(bodies)) == 1
    assert [size > 2 * PACKED_FROM_BYTES for size in packed].count(True) <= 1 + 3 * bool(alternatives)
    assert decode_body(DecisionRecorded, bodies[0].encode()) == event
    plain = json.dumps({"record": event.record.model_dump(mode="json")}).encode()
    assert decode_body(DecisionRecorded, plain) == event


def test_a_reader_of_an_earlier_version_reads_the_rest() -> None:
    class Earlier(BaseModel):
        record: DecisionRecord

    found = Earlier.model_validate_json(recorded(100, {"a": 1}).body())
    assert (found.record.id, found.record.alternatives, found.record.replay.arguments) == ("d1", (), {})


def _deflated(body: bytes) -> str:
    return base64.b64encode(zlib.compress(body)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "%%%",
        "é",
        base64.b64encode(b"not zlib").decode(),
        _deflated(b'{"arguments":{}}')[:-8],
        base64.b64encode(zlib.compress(b"{}") + b"more").decode(),
        _deflated(b" " * 2_000_000 + b"{}"),
        _deflated(b"[" * 100_000),
        _deflated(b'{"arguments":{"a":"\\u0000"}}'),
        _deflated(b'{"arguments":{"a":"\\ud800"}}'),
        _deflated(b'{"arguments":{"a":NaN}}'),
        _deflated(b'{"arguments":{"a":"\xff"}}'),
        _deflated(b'{"arguments":[]}'),
        _deflated(b'{"other":{}}'),
        _deflated(b"[]"),
        7,
    ],
)
def test_what_is_malformed_or_too_large_is_refused(text: Any) -> None:
    for field in ("packed", "packed_policies"):
        if field == "packed_policies" and text in (_deflated(b'{"arguments":[]}'), _deflated(b'{"other":{}}')):
            continue  # any object may be policies
        document = json.loads(recorded(1).model_dump_json()) | {field: text}
        with pytest.raises(Undecodable):
            decode_body(DecisionRecorded, json.dumps(document).encode())


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        unpack(_deflated(b" " * 50_000_000), most_bytes=1000)


def test_what_is_packed_has_a_budget_of_its_own() -> None:
    with pytest.raises(ValueError, match="packed: more than 64 levels"):
        unpack(_deflated(b"[" * 65 + b"]" * 65))


@pytest.mark.parametrize("kind", list(DecisionKind))
def test_predictions_offers_and_statuses_share_a_subject_per_node_and_resource(kind: DecisionKind) -> None:
    event = DecisionRecorded(record=recorded(0).record.model_copy(update={"kind": kind}))
    is_shared = kind in (DecisionKind.PREDICTION, DecisionKind.OFFER, DecisionKind.STATUS)
    assert event.key() == ("n1/cpu" if is_shared else "n1/d1")
