"""decision.recorded on the bus: packed parts, bounded when they are unpacked; plain bodies are read as before."""

from __future__ import annotations

import base64
import json
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.decisions.packed import MOST_UNPACKED_BYTES, unpack
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Replay
from slackwater.events.codec.body import Undecodable, decode_body
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import is_subject_of, subject_of

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"))
)
DOCUMENTS = st.dictionaries(
    st.text("abc"), st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=9), max_leaves=60)
)


def record_of(arguments: dict[str, Any], spared: int = 0, kind: DecisionKind = DecisionKind.THROTTLE) -> DecisionRecord:
    return DecisionRecord(
        id="d-1",
        kind=kind,
        node="n1",
        subject="cpu",
        service="ensurance",
        rule="r",
        reason=Reason.THROTTLE_WATERLINE_CROSSED,
        decided_at=datetime(2026, 1, 1, tzinfo=UTC),
        trigger_event_id=None,
        inputs=(),
        terms=(),
        result=0,
        unit="milli-cores",
        alternatives=tuple(
            Alternative(what=f"pod-{n}", rejected_because="gap is closed", keys=(n, 0.5), pod_uid=f"u{n}")
            for n in range(spared)
        ),
        replay=Replay(function="m:f", arguments=arguments),
    )


def packed(parts: bytes) -> str:
    return base64.b64encode(zlib.compress(parts, 9)).decode()


def body_with(text: str) -> bytes:
    body = json.loads(DecisionRecorded(record=record_of({})).body())
    return json.dumps({**body, "packed": text}).encode()


@given(arguments=DOCUMENTS, spared=st.integers(0, 40))
def test_a_record_survives_the_bus_packed_or_not(arguments: dict[str, Any], spared: int) -> None:
    event = DecisionRecorded(record=record_of(arguments, spared))

    body = event.body()

    assert decode_body(DecisionRecorded, body.encode()) == event
    assert decode_body(DecisionRecorded, event.model_dump_json().encode()) == event, "a plain body is read as before"


def test_large_parts_are_packed_and_a_reader_of_plain_records_still_reads_the_rest() -> None:
    event = DecisionRecorded(record=record_of({"pods": [{"name": f"pod-{n}", "uses": n} for n in range(100)]}, 30))

    body = event.body()

    assert len(body) < len(event.model_dump_json()) / 3
    plain = json.loads(body)
    assert plain["record"]["replay"] == {"function": "m:f", "arguments": {}}
    assert DecisionRecord.model_validate(plain["record"]).id == "d-1"


def test_small_parts_stay_readable() -> None:
    assert "packed" not in json.loads(DecisionRecorded(record=record_of({"peak": 1})).body())


BOMB = packed(b'{"alternatives":[],"inputs":[],"arguments":{"a":"' + b" " * (MOST_UNPACKED_BYTES + 1) + b'"}}')


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (BOMB, "not one whole zlib stream"),
        (base64.b64encode(zlib.compress(b"{}") + b"more").decode(), "not one whole zlib stream"),
        (base64.b64encode(zlib.compress(b"{}")[:-3]).decode(), "not one whole zlib stream"),
        ("not base64", "no base64"),
        (base64.b64encode(b"not zlib").decode(), "no base64"),
        ("é", "no base64"),
        (packed(b"[]"), "no object"),
        (packed(b'{"arguments":{}}'), "no object"),
        (packed(b'{"arguments":{"a":"\\u0000"},"alternatives":[],"inputs":[]}'), "NUL"),
        (packed(b'{"arguments":{"a":NaN},"alternatives":[],"inputs":[]}'), "number"),
        (packed(b'{"arguments":[],"alternatives":[],"inputs":[]}'), "arguments"),
        (packed(b'{"arguments":{},"alternatives":[{}],"inputs":[]}'), "alternatives"),
        (packed(b"[" * 100_000), "recursion"),
    ],
)
def test_what_cannot_be_unpacked_within_bounds_is_refused(text: str, because: str) -> None:
    with pytest.raises(Undecodable, match=because) as refused:
        decode_body(DecisionRecorded, body_with(text))
    assert refused.value.code == "invalid_payload"


def test_a_bomb_is_small_on_the_bus_and_never_unpacked_whole() -> None:
    assert len(BOMB) < 10_000
    with pytest.raises(ValueError, match="zlib stream of at most"):
        unpack(BOMB)


def test_an_escaped_backslash_before_u0000_is_text() -> None:
    event = DecisionRecorded(record=record_of({"a": "\\u0000" * 200}))
    assert decode_body(DecisionRecorded, event.body().encode()) == event


def test_predictions_and_offers_share_a_subject_per_node_and_resource() -> None:
    for kind in DecisionKind:
        event = DecisionRecorded(record=record_of({}, kind=kind))
        is_shared = kind in (DecisionKind.PREDICTION, DecisionKind.OFFER)
        assert event.key() == ("n1/cpu" if is_shared else "n1/d-1")
        assert is_subject_of(event, subject_of(event))
        assert is_subject_of(event, subject_of(event, "n1/d-1")), "records of earlier versions are read"
        assert not is_subject_of(event, subject_of(event, "n2/d-1"))
        assert not is_subject_of(event, subject_of(event, "n1/memory"))
