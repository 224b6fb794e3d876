"""Events as NATS messages: CloudEvents 1.0 in binary mode, attributes in `ce-*` headers, the payload alone as JSON.

String attributes are percent-encoded as the CloudEvents HTTP binding does it, because NATS header values are lines
of printable ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import unquote

from slackwater.events.codec.body import Undecodable, decode_body
from slackwater.events.codec.unknown_values import Lost
from slackwater.events.envelope import KEY_POSITION, Event, Payload, agent_source, built, is_of_agent
from slackwater.events.rosters import FindRoster, no_roster
from slackwater.events.serialized import Written, written
from slackwater.model.bounds import MOST_NAME, TimeSpan

P = TypeVar("P", bound=Payload)

SPEC_VERSION = "1.0"
CONTENT_TYPE = "application/json"
MESSAGE_ID = "Nats-Msg-Id"
TYPE_PREFIX = "io.slackwater."
_UNSAFE = re.compile(r"[^!#$&-~]|%")
_ESCAPED = re.compile(r"(?:=[0-9A-F]{2})+")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_CONTROL = re.compile(r"[\x00-\x1f]")
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Message:
    """A NATS message: subject, headers, body."""

    subject: str
    headers: Mapping[str, str]
    body: bytes


def encode(event: Event[Any] | Written) -> Message:
    """Returns an event as a message. `Nats-Msg-Id` is the event id, so the broker drops repeats."""
    if isinstance(event, Event):
        event = written(event)
    identifier = _escape(event.id)
    headers = {
        "ce-specversion": SPEC_VERSION,
        "ce-id": identifier,
        "ce-type": f"{TYPE_PREFIX}{event.type}",
        "ce-source": _escape(event.source),
        "ce-subject": _escape(subject_key(event.subject)),
        "ce-time": event.time,
        "content-type": CONTENT_TYPE,
        MESSAGE_ID: identifier,
    }
    if event.causedby is not None:
        headers["ce-causedby"] = _escape(event.causedby)
    if event.traceparent is not None:
        headers["traceparent"] = _escape(event.traceparent)
    return Message(event.subject, headers, event.body.encode())


def decode(
    payload: type[P],
    headers: Mapping[str, str] | None,
    body: bytes,
    *,
    lost: Lost | None = None,
    find: FindRoster = no_roster,
) -> Event[P]:
    """Returns the event in a message expected to hold a `payload`; `lost`, `find`: see decode_body. Raises Undecodable
    with the reason as code, RosterMissing.
    """
    return built(Event, attributes_of(payload, headers) | {"data": decode_body(payload, body, lost, find)})


def attributes_of(payload: type[Payload], headers: Mapping[str, str] | None) -> dict[str, Any]:
    """Returns id, source, time, causedby and traceparent of a message expected to hold a `payload`.
    Raises Undecodable.
    """
    attributes = {str(name).lower(): value for name, value in (headers or {}).items()}
    _check_type(payload, _attribute(attributes, "ce-type"))
    version = _attribute(attributes, "ce-specversion")
    if version != SPEC_VERSION:
        raise Undecodable(f"ce-specversion is {version!r}, {SPEC_VERSION!r} is understood", code="wrong_version")
    return {
        "id": _text_of("ce-id", _attribute(attributes, "ce-id")),
        "source": _text_of("ce-source", _attribute(attributes, "ce-source")),
        "time": _time(_attribute(attributes, "ce-time")),
        "causedby": _text_of("ce-causedby", attributes["ce-causedby"]) if "ce-causedby" in attributes else None,
        "traceparent": _trace_of(attributes.get("traceparent", "")),
    }


def decode_on(
    subject: str,
    payload: type[P],
    headers: Mapping[str, str] | None,
    body: bytes,
    *,
    lost: Lost | None = None,
    find: FindRoster = no_roster,
) -> Event[P]:
    """Returns the event in a message that arrived on `subject`, which must match the event's key.
    Raises Undecodable, RosterMissing.

    The broker lets an agent publish only on its own node's subjects, so the subject identifies the
    sender, whatever `ce-source` says. A body that names another node is forged or defective and is
    not delivered.
    """
    attributes, data = attributes_of(payload, headers), decode_body(payload, body, lost, find)
    if payload.FROM_AGENT:
        is_agent = is_of_agent(payload, subject)
        attributes["source"] = agent_source(data.key().split("/")[0]) if is_agent else subject.rpartition(".")[2]
    event: Event[P] = built(Event, attributes | {"data": data})
    if subject != event.subject:
        message = f"{payload.TYPE} of {data.key()!r} came on the subject of {subject_key(subject)!r} ({subject})"
        raise Undecodable(message, code="wrong_subject")
    return event


def subject_key(subject: str) -> str:
    """Returns the key in a subject, as `Payload.key` gave it; empty for a foreign subject."""
    tokens = subject.split(".")[KEY_POSITION:]
    return "/".join(map(text_of_token, tokens))


def text_of_token(token: str) -> str:
    """Returns the name that `events.envelope.subject_token` wrote as one token."""
    return _ESCAPED.sub(_unescape_bytes, token)


def _escape(text: str) -> str:
    if _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)


def _unescape_bytes(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("=", "")).decode(errors="replace")


def _attribute(attributes: Mapping[str, str], name: str) -> str:
    value = attributes.get(name)
    if not value:
        raise Undecodable(f"header {name} is missing", code="missing_attribute", field=name)
    return value


def _check_type(payload: type[Payload], header: str) -> None:
    expected = f"{TYPE_PREFIX}{payload.TYPE}.v{payload.VERSION}"
    if header == expected:
        return
    same_event = header.rsplit(".v", 1)[0] == f"{TYPE_PREFIX}{payload.TYPE}"
    code = "wrong_version" if same_event else "unknown_type"
    raise Undecodable(f"ce-type is {header!r}, {expected!r} is understood here", code=code, field="ce-type")


def _text_of(name: str, text: str) -> str:
    """Returns an attribute's value without escapes: UTF-8, one line, at most as long as a name."""
    try:
        value = unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise Undecodable(f"{name} is not UTF-8: {error.reason}", code="invalid_attribute", field=name) from None
    if not 0 < len(value) <= MOST_NAME or _CONTROL.search(value):
        message = f"{name}: {value[:_SHOWN]!r} must be one line of 1 to {MOST_NAME} characters"
        raise Undecodable(message, code="invalid_attribute", field=name)
    return value


def _trace_of(text: str) -> str | None:
    """Returns the trace context, or None if it is invalid: W3C Trace Context asks for that, and the
    event is still valid.
    """
    return text if _TRACEPARENT.fullmatch(text) else None


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        message = f"ce-time is {text[:_SHOWN]!r}; an RFC 3339 time with an offset is needed"
        raise Undecodable(message, code="missing_attribute", field="ce-time")
    problem = TimeSpan().problem(moment)
    if problem is not None:
        raise Undecodable(f"ce-time: {problem}", code="invalid_attribute", field="ce-time")
    return moment
