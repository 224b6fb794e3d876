from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_binary, to_binary
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from slackwater.bus.codec.cloudevents import decode, encode, subject_key
from slackwater.events.codec.body import Undecodable
from slackwater.events.envelope import Event, event_of, subject_of, subject_token
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.bounds import EARLIEST, LATEST
from slackwater.model.nodes import Liveness

NOW = datetime(2026, 1, 5, tzinfo=UTC)
words = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Co", "Cn", "Z"]) | st.just(" "), min_size=1, max_size=170
)
times = st.datetimes(
    (EARLIEST + timedelta(days=1)).replace(tzinfo=None),
    (LATEST - timedelta(days=1)).replace(tzinfo=None),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)


def changed(node: str = "n1", **attributes: Any) -> Event[NodeLivenessChanged]:
    data = NodeLivenessChanged(node=node, liveness=Liveness.LOST, previous=None, last_report_at=NOW, changed_at=NOW)
    return event_of(data, **{"source": "test", "time": NOW, **attributes})


@given(node=words, source=words, cause=st.none() | words, time=times, id_=words)
def test_an_event_comes_back_as_it_was(node: str, source: str, cause: str | None, time: datetime, id_: str) -> None:
    event = changed(node, source=source, causedby=cause, time=time, id=id_)
    message = encode(event)
    assert decode(NodeLivenessChanged, message.headers, message.body) == event


@given(source=words, cause=words)
def test_headers_are_single_lines_of_printable_ascii_without_edges(source: str, cause: str) -> None:
    for value in encode(changed(source=source, causedby=cause)).headers.values():
        assert value.isascii()
        assert value.isprintable()
        assert value == value.strip()


@given(key=st.lists(words.filter(lambda word: "/" not in word), min_size=1, max_size=3).map("/".join))
def test_the_key_can_be_read_back_from_the_subject(key: str) -> None:
    subject = subject_of(changed(key).data)
    assert all(character.isascii() and not character.isspace() for character in subject)
    assert subject_key(subject) == key


@given(text=st.text())
def test_a_token_is_the_name_with_the_bytes_of_each_unusual_character(text: str) -> None:
    plain = frozenset(string.ascii_letters + string.digits + "-_")
    one_by_one = (c if c in plain else "".join(f"={byte:02X}" for byte in c.encode()) for c in text)
    assert subject_token(text) == "".join(one_by_one)


def test_the_message_id_is_the_event_id_so_that_the_broker_drops_repeats() -> None:
    event = changed()
    assert encode(event).headers["Nats-Msg-Id"] == event.id


def test_the_sdk_of_cloudevents_reads_what_we_write_and_we_read_what_it_writes() -> None:
    event = changed(source="slackwater/ingestion äöü", causedby="0195", traceparent=f"00-{10:032x}-{11:016x}-01")
    ours = encode(event)
    theirs = from_binary(HTTPMessage(dict(ours.headers), ours.body), JSONFormat(), CloudEvent)
    assert theirs.get_type() == "io.slackwater.node.liveness_changed.v1"
    assert (theirs.get_id(), theirs.get_source()) == (event.id, event.source)
    assert theirs.get_time() == event.time
    assert theirs.get_extension("causedby") == "0195"
    back = to_binary(theirs, JSONFormat())
    headers = {**back.headers, "traceparent": ours.headers["traceparent"]}
    assert decode(NodeLivenessChanged, headers, back.body) == event


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("ce-type", "io.slackwater.node.liveness_changed.v2", "wrong_version"),
        ("ce-type", "io.slackwater.usage.reported.v1", "unknown_type"),
        ("ce-type", "whatever", "unknown_type"),
        ("ce-specversion", "0.3", "wrong_version"),
        ("ce-time", "yesterday", "missing_attribute"),
        ("ce-time", "2026-01-05T00:00:00", "missing_attribute"),
        *((name, None, "missing_attribute") for name in ("ce-type", "ce-specversion", "ce-id", "ce-source", "ce-time")),
    ],
)
def test_a_bad_attribute_is_named_with_a_stable_reason(header: str, value: str | None, code: str) -> None:
    message = encode(changed())
    headers = {k: v for k, v in {**message.headers, header: value}.items() if v is not None}
    with pytest.raises(Undecodable, match=header) as caught:
        decode(NodeLivenessChanged, headers, message.body)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b"", "malformed_json", None),
        (b"\xff\xfe", "malformed_text", None),
        (b'{"node":', "malformed_json", None),
        (b"[]", "invalid_payload", ""),
        (b'{"node": "n"}', "invalid_payload", "liveness"),
    ],
)
def test_a_bad_body_is_distinguished_from_a_bad_payload(body: bytes, code: str, field: str | None) -> None:
    with pytest.raises(Undecodable) as caught:
        decode(NodeLivenessChanged, encode(changed()).headers, body)
    assert (caught.value.code, caught.value.field) == (code, field)


@given(st.dictionaries(words, words), st.binary())
def test_no_message_whatever_raises_anything_else(headers: dict[str, str], body: bytes) -> None:
    good = dict(encode(changed()).headers)
    for candidate in (None, headers, {**good, **headers}):
        with pytest.raises(Undecodable):
            decode(NodeLivenessChanged, candidate, body)


def test_a_field_of_a_later_version_is_ignored() -> None:
    message = encode(changed())
    body = message.body[:-1] + b',"added_later":1}'
    assert decode(NodeLivenessChanged, message.headers, body) == changed(id=message.headers["ce-id"])


def test_a_subject_that_is_not_ours_has_no_key() -> None:
    assert subject_key("sw.v1.dlq.x") == ""
