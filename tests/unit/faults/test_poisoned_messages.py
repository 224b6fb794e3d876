"""Whatever arrives, decoding gives a valid payload or Undecodable: for every event, wholly."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.faults.mutations import BROKEN_TEXTS, Mutation, Specimen, mutations_of
from tests.faults.poison import valid_events

from slackwater.bus.codec.cloudevents import decode_on, encode
from slackwater.events.codec.body import Undecodable, decode_body
from slackwater.events.envelope import Event, Payload
from slackwater.events.pod_columns import by_columns
from slackwater.events.registry import EVENTS
from slackwater.events.rosters import RosterMissing
from slackwater.events.usage_reported import UsageReported

NOW = datetime(2026, 1, 5, 12, 30, 15, 123456, tzinfo=UTC)
VALID = valid_events(NOW)
FROM_AGENTS = [payload for payload in EVENTS if payload.FROM_AGENT]
LEAVES = st.sampled_from((
    b"null", b"true", b"0", b"-1", b"1e308", b"1e400", b"9223372036854775808", b"-" + b"9" * 400, b"NaN", b"-Infinity",
    b'""', b'"2026-01-05T00:00:00Z"', b'"10000-01-01T00:00:00Z"', b"[]", b"{}", b"[" * 300, b'"\\ud800"',
    *(b'"' + text + b'"' for _, text in BROKEN_TEXTS),
)) | st.binary(max_size=8) | st.integers().map(lambda number: str(number).encode())  # fmt: skip


@cache
def mutations(payload: type[Payload]) -> Sequence[Mutation]:
    return mutations_of(VALID[payload])


def touch(event: Event[Any]) -> None:
    """Read every lazily read part, as a consumer that looks at all of it would, and publish it once more."""
    data = event.data
    if isinstance(data, UsageReported):
        data = data.shown()
        assert all(pod.pod.uid.encode() is not None for pod in data.pods)
        assert len(by_columns(data.pods).cpu) == len(data.pods)
    decode_body(type(data), encode(event.model_copy(update={"data": data})).body)


def read(message: Mutation) -> Event[Any] | None:
    """The event, touched wholly; None if it was refused. Anything else that is raised fails the test."""
    try:
        event = decode_on(message.subject, message.payload, message.headers, message.body)
        touch(event)
    except (RosterMissing, Undecodable):
        return None
    return event


@pytest.mark.parametrize("payload", EVENTS, ids=lambda payload: payload.TYPE)
def test_a_mutated_message_is_refused_or_a_valid_payload(payload: type[Payload]) -> None:
    wrong = []
    for message in mutations(payload):
        try:
            accepted = read(message) is not None
        except Exception as error:  # noqa: BLE001 - all of them are listed, not the first alone
            wrong.append(f"{message.family}: {message.what}: {type(error).__name__}")
        else:
            if message.refused and accepted:
                wrong.append(f"{message.family}: {message.what}: accepted")
    assert not wrong, f"{len(wrong)} of {len(mutations(payload))}:\n" + "\n".join(wrong[:40])


@pytest.mark.parametrize("payload", FROM_AGENTS, ids=lambda payload: payload.TYPE)
def test_a_refused_message_leaves_nothing_to_the_collector(payload: type[Payload]) -> None:
    """What it unpacked to would wait in memory for a hundred thousand other objects."""
    first = {message.family: message for message in mutations(payload) if message.refused}

    def refuse() -> None:
        for message in first.values():
            with suppress(RosterMissing, Undecodable):
                decode_on(message.subject, message.payload, message.headers, message.body)

    refuse()
    gc.collect()
    gc.disable()
    try:
        refuse()
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("payload", EVENTS, ids=lambda payload: payload.TYPE)
def test_the_message_that_is_mutated_is_accepted(payload: type[Payload]) -> None:
    """Otherwise a refused mutation would show nothing."""
    valid = Specimen(VALID[payload])
    message = valid.with_body("none", "", encode(valid.event).body, None)
    assert read(message) is not None


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(payload=st.sampled_from(EVENTS), body=st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(payload: type[Payload], body: bytes) -> None:
    assert read(Specimen(VALID[payload]).with_body("bytes", "", body, True)) is None


@settings(max_examples=400, suppress_health_check=list(HealthCheck))
@given(payload=st.sampled_from(EVENTS), data=st.data())
def test_arbitrary_values_at_any_place_are_refused_or_valid(payload: type[Payload], data: st.DataObject) -> None:
    specimen = Specimen(VALID[payload])
    place, _ = data.draw(st.sampled_from(specimen.places))
    read(specimen.with_literal("literal", place, data.draw(LEAVES), None))


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(
    payload=st.sampled_from(EVENTS),
    headers=st.dictionaries(
        st.sampled_from(("ce-id", "ce-type", "ce-source", "ce-time", "ce-specversion", "ce-causedby", "traceparent")),
        st.text(max_size=20) | st.sampled_from(("%00", "%ED%A0%80", "%FF", "9999-12-31T23:59:59-23:59")),
    ),
)
def test_arbitrary_headers_are_refused_or_valid(payload: type[Payload], headers: dict[str, str]) -> None:
    specimen = Specimen(VALID[payload])
    body = json.dumps(specimen.document).encode()
    message = Mutation("headers", "", payload, specimen.event.subject, {**specimen.headers, **headers}, body, None)
    read(message)
