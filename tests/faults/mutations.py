"""A structured fuzzer: valid messages with exactly one mutation, in named families.

Every mutation states whether consumers must refuse it. `None`: a consumer may accept or refuse it, such as an old time,
a duplicate key, or an amount that only the description of the machine contradicts.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator

from slackwater.bus.codec.cloudevents import encode
from slackwater.events.codec.body import decode_body
from slackwater.events.codec.packed import pack
from slackwater.events.codec.unknown_values import EventLost, without_unknown
from slackwater.events.envelope import Event, Payload
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.identifiers import new_id
from slackwater.runtime.service_list import service_names

Place = tuple[str | int, ...]
DEEP = 20_000
HUGE_NAME, HUGE_BODY = 70_000, 900_000
MANY_PODS, MANY_LABELS, MANY_ITEMS = 5_000, 10_000, 60_000
CORES_OF_NO_MACHINE, MEMORY_OF_NO_MACHINE = 10**12, 2**60
OTHER = "somewhere-else"
_IDENTIFIERS = frozenset({"node", "uid", "pod_uid", "name", "namespace", "workload", "boot_epoch", "writer", "kernel"})
_FREE_FORM = frozenset({"arguments", "fields", "inputs", "metadata", "rules", "selector", "spec"})
"""Fields of an event that accept JSON or text of any shape."""
_OF_ONE_MACHINE = frozenset({"node.described"})
"""Fields with the size of the machine. Services compare usage with it, not the decoder."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One message. `refused`: whether every consumer must refuse it; None: either."""

    family: str
    what: str
    payload: type[Payload]
    subject: str
    headers: dict[str, str]
    body: bytes
    refused: bool | None


@dataclass(frozen=True)
class Specimen:
    """A valid event to mutate."""

    event: Event[Any]

    @cached_property
    def payload(self) -> type[Payload]:
        return type(self.event.data)

    @cached_property
    def document(self) -> Any:
        return json.loads(encode(self.event).body)

    @cached_property
    def places(self) -> Sequence[tuple[Place, Any]]:
        """Every value with its path; for lists only the first item."""
        return list(_places(self.document))

    @cached_property
    def schema(self) -> Draft202012Validator:
        return Draft202012Validator(self.payload.wire().model_json_schema(mode="validation"))

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a new message: a new id, and no message id, because the broker would deduplicate by it."""
        whole = dict(encode(self.event).headers)
        return {name: text for name, text in whole.items() if name != "Nats-Msg-Id"} | {"ce-id": str(uuid.uuid4())}

    def with_body(self, family: str, what: str, body: bytes, refused: bool | None) -> Mutation:
        return Mutation(family, what, self.payload, self.event.subject, self.headers, body, refused)

    def with_headers(self, what: str, headers: dict[str, str], refused: bool | None) -> Mutation:
        body = encode(self.event).body
        return Mutation("headers", what, self.payload, self.event.subject, headers, body, refused)

    def with_literal(self, family: str, place: Place, literal: bytes, refused: bool | None) -> Mutation:
        """Writes `literal` unchanged at the place."""
        copy = json.loads(json.dumps(self.document))
        put(copy, place, "@@")
        body = json.dumps(copy, separators=(",", ":")).encode().replace(b'"@@"', literal)
        shown = literal if len(literal) <= 24 else literal[:20] + b"..."
        return self.with_body(family, f"{dotted(place)} = {shown!r}", body, refused)

    def with_value(self, family: str, place: Place, value: Any, refused: bool | None) -> Mutation:
        return self.with_literal(family, place, json.dumps(value, separators=(",", ":")).encode(), refused)

    def is_invalid(self, place: Place, value: Any) -> bool:
        """Whether the event's schema refuses the value at this place. What an enum does not know loses itself, its item
        or the event, and the rest is judged."""
        copy = json.loads(json.dumps(self.document))
        put(copy, place, value)
        if isinstance(value, str):
            try:
                without_unknown(self.payload, copy)
            except EventLost:
                return True
        return not self.schema.is_valid(copy)


def mutations_of(event: Event[Any]) -> list[Mutation]:
    """All mutations of one valid event, family by family."""
    specimen = Specimen(event)
    families = (_types, _absences, _ranges, _not_finite, _encodings, _whole_bodies, _sizes, _bombs, _nesting,
                _duplicates, _times, _headers, _other_nodes, _forged, _repeats, _amounts)  # fmt: skip
    return [mutation for family in families for mutation in family(specimen)]


def _types(of: Specimen) -> Iterator[Mutation]:
    for place, _ in of.places:
        swapped: tuple[Any, ...] = ({}, [], "text", True)
        for value in swapped:
            refused = value is not True and not _is_free(place) and of.is_invalid(place, value)
            yield of.with_value("type swap", place, value, True if refused else None)
    for literal in (b"42", b'"text"', b"null", b"[]", b"true"):
        yield of.with_body("type swap", f"the whole body is {literal.decode()}", literal, True)


def _absences(of: Specimen) -> Iterator[Mutation]:
    for place, _ in of.places:
        refused = not _is_free(place) and of.is_invalid(place, None)
        yield of.with_value("null", place, None, True if refused else None)
        copy = json.loads(json.dumps(of.document))
        remove(copy, place)
        lacks = not of.schema.is_valid(copy)
        yield of.with_body("missing field", dotted(place), json.dumps(copy).encode(), True if lacks else None)
    yield of.with_body("missing field", "all of them", b"{}", True)


def _ranges(of: Specimen) -> Iterator[Mutation]:
    beyond = (2**63, 2**64, 2**70, -(2**70), 1180591620717411303424, 9223372036854775808, 10**400)
    for place, value in of.places:
        if not _is_number(value):
            continue
        refused = None if _is_free(place) else True
        for number in beyond:
            fits = isinstance(value, float) and number == 2**63  # a large number, and no more than that
            yield of.with_value("range", place, number, None if fits else refused)
        yield of.with_literal("range", place, b"1e308", refused)
        yield of.with_literal("range", place, b"1e400", True)
        yield of.with_value("range", place, -1, None)
        yield of.with_literal("range", place, b"-0.0", None)


def _not_finite(of: Specimen) -> Iterator[Mutation]:
    for place, value in of.places:
        if _is_number(value):
            for literal in (b"NaN", b"Infinity", b"-Infinity"):
                yield of.with_literal("not finite", place, literal, True)


BROKEN_TEXTS: Sequence[tuple[str, bytes]] = (
    ("lone surrogate", b"a\xed\xa0\x80b"),
    ("surrogate pair as UTF-8", b"\xed\xa0\xbd\xed\xb8\x80"),
    ("overlong NUL", b"a\xc0\x80"),
    ("overlong slash", b"\xe0\x80\xaf"),
    ("truncated UTF-8", b"a\xc3"),
    ("byte FF", b"\xff"),
    ("beyond U+10FFFF", b"\xf4\x90\x80\x80"),
    ("escaped surrogate", b"a\\ud800b"),
    ("escaped surrogates in the wrong order", b"\\udc00\\ud800"),
    ("escaped NUL", b"a\\u0000b"),
    ("raw NUL", b"a\x00b"),
)
"""Byte sequences that a JSON text must not contain, as written between the quotes."""


def _encodings(of: Specimen) -> Iterator[Mutation]:
    for place, value in of.places:
        if isinstance(value, str):
            for name, text in BROKEN_TEXTS:
                yield of.with_literal(f"encoding: {name}", place, b'"' + text + b'"', True)
    for name, text in BROKEN_TEXTS:
        body = json.dumps(of.document).encode()
        yield of.with_body(f"encoding: {name}", "name of an unknown field", b'{"' + text + b'":1,' + body[1:], True)
        yield of.with_body(f"encoding: {name}", "unknown field", b'{"zz":"' + text + b'",' + body[1:], True)


def _whole_bodies(of: Specimen) -> Iterator[Mutation]:
    body = json.dumps(of.document).encode()
    yield of.with_body("whole body", "empty", b"", True)
    yield of.with_body("whole body", "half", body[: len(body) // 2], True)
    yield of.with_body("whole body", "twice", body + body, True)
    yield of.with_body("whole body", "noise", b"\xff\xfe\x00 not JSON at all", True)
    yield of.with_body("whole body", "byte order mark", b"\xef\xbb\xbf" + body, True)
    yield of.with_body("whole body", "UTF-16", body.decode().encode("utf-16"), True)
    yield of.with_body("whole body", "UTF-32", body.decode().encode("utf-32"), True)
    yield of.with_body("whole body", "single quotes", body.replace(b'"', b"'"), True)
    yield of.with_body("whole body", "trailing comma", body[:-1] + b",}", True)


def _sizes(of: Specimen) -> Iterator[Mutation]:
    for place, value in of.places:
        if isinstance(value, str):
            named = place[-1] in _IDENTIFIERS and not _is_free(place)
            yield of.with_value("size: 70 kB text", place, "x" * HUGE_NAME, True if named else None)
    body = json.dumps(of.document).encode()
    yield of.with_body("size: 900 kB", "unknown field", b'{"zz":"' + b"y" * HUGE_BODY + b'",' + body[1:], None)
    yield of.with_body("size: 900 kB", "not JSON", b"y" * HUGE_BODY, True)
    for place, value in of.places:
        if place[-1] == "labels" and isinstance(value, dict) and not _is_free(place):
            labels = {f"label-{number}": "" for number in range(MANY_LABELS)}
            yield of.with_value("size: 10,000 labels", place, labels, True)
    if of.payload is UsageReported:
        pods = [_small_pod(of.document, number) for number in range(MANY_PODS)]
        yield of.with_value("size: 5,000 pods", ("own_roster", "pods"), pods, True)
        yield of.with_value("size: 5,000 numbers", ("pods", "cpu_milli", "avg"), [1] * MANY_PODS, True)


def _bombs(of: Specimen) -> Iterator[Mutation]:
    """Little to send, much to read: many invalid items, many fields, and what unpacks to more."""
    objects = b"[" + b"{}," * MANY_ITEMS + b"{}]"
    fields = b"{" + b",".join(b'"%d":0' % number for number in range(MANY_LABELS)) + b"}"
    for place, value in of.places:
        if len(place) == 1 and isinstance(value, list | dict):
            yield of.with_literal("bomb: 60,000 objects", place, objects, True)
            yield of.with_literal("bomb: 10,000 fields", place, fields, None)  # a typed reader skips unknown ones
    body = json.dumps(of.document).encode()
    yield of.with_body("bomb: 60,000 objects", "unknown field", b'{"zz":' + objects + b"," + body[1:], True)
    if "packed" in of.payload.model_fields:
        yield of.with_value("bomb: packed", ("packed",), pack(b"[" + b"[]," * 340_000 + b"[]]"), True)


def _small_pod(document: Any, number: int) -> Any:
    pod = document["own_roster"]["pods"][0]
    kept = {name: pod[name] for name in ("namespace", "workload", "tier", "qos", "priority", "request", "started_at")}
    return {**kept, "uid": str(number), "name": "p"}


def _nesting(of: Specimen) -> Iterator[Mutation]:
    arrays, objects = b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP
    body = json.dumps(of.document).encode()
    for name, deep in (("arrays", arrays), ("objects", objects)):
        yield of.with_body("nesting", f"{name}: whole body", deep, True)
        yield of.with_body("nesting", f"{name}: unknown field", b'{"zz":' + deep + b"," + body[1:], True)
        yield of.with_body("nesting", f"{name}: never closed", deep[:DEEP], True)
    for place, _ in of.places:
        if len(place) == 1 or _is_free(place):
            yield of.with_literal("nesting", place, arrays, True)
            yield of.with_literal("nesting", place, objects, True)


def _duplicates(of: Specimen) -> Iterator[Mutation]:
    body = json.dumps(of.document)
    for place, value in of.places:
        if len(place) == 1 and value is not None:
            again = f'{{"{place[0]}":{json.dumps(value)},{body[1:]}'
            yield of.with_body("duplicate key", f"{place[0]} twice", again.encode(), None)
            other = f'{{"{place[0]}":[[]],{body[1:]}'
            yield of.with_body("duplicate key", f"{place[0]} with two types", other.encode(), None)
    pods = of.document.get("pods")
    if isinstance(pods, list) and pods:
        yield of.with_value("duplicate pods", ("pods",), [*pods, *pods], None)
    if of.payload is UsageWindowed:
        yield of.with_value("duplicate pods", ("pods",), _doubled(pods), None)


def _doubled(columns: Any) -> Any:
    return {name: _doubled(value) if isinstance(value, dict) else [*value, *value] for name, value in columns.items()}


def _times(of: Specimen) -> Iterator[Mutation]:
    out_of_span = (
        "10000-01-01T00:00:00Z", "+10000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z", "2262-04-12T00:00:00Z", "2300-01-01T00:00:00Z", "2026-01-01T00:00:00",
        "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-13-45T99:99:99Z",
    )  # fmt: skip
    odd = ("1970-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00+23:59")
    for place, value in of.places:
        if isinstance(value, str) and _is_time(value) and not _is_free(place):
            for text in out_of_span:
                yield of.with_value("time", place, text, True)
            for number in (10**18, -(10**18), 10**400):
                yield of.with_value("time", place, number, True)
            for text in odd:
                yield of.with_value("time", place, text, None)
    for text in out_of_span:
        yield of.with_headers(f"ce-time = {text}", {**of.headers, "ce-time": text}, True)


def _headers(of: Specimen) -> Iterator[Mutation]:
    for name in ("ce-id", "ce-type", "ce-source", "ce-time", "ce-specversion"):
        without = {key: text for key, text in of.headers.items() if key != name}
        yield of.with_headers(f"without {name}", without, True)
    yield of.with_headers("none", {}, True)
    for name in ("ce-id", "ce-source", "ce-causedby"):
        for what, text in (("NUL", "a%00b"), ("invalid UTF-8", "%FF%FE"), ("lone surrogate", "%ED%A0%80"),
                           ("70 kB", "x" * HUGE_NAME), ("line break", "a%0D%0Ab")):  # fmt: skip
            yield of.with_headers(f"{what} in {name}", {**of.headers, name: text}, True)
    kind = of.headers["ce-type"]
    yield of.with_headers("another type", {**of.headers, "ce-type": "io.slackwater.no.such.v1"}, True)
    yield of.with_headers("a later version", {**of.headers, "ce-type": kind[:-1] + "9"}, True)
    yield of.with_headers("a type of 70 kB", {**of.headers, "ce-type": kind + "x" * HUGE_NAME}, True)
    yield of.with_headers("another spec version", {**of.headers, "ce-specversion": "9.9"}, True)
    yield of.with_headers("hostile trace", {**of.headers, "traceparent": "%00" * 50}, None)
    yield of.with_headers("an id that is no UUID", {**of.headers, "ce-id": "%27%3B--"}, None)
    yield of.with_headers("300 kB of an unknown one", {**of.headers, "x-large": "z" * 300_000}, None)
    yield of.with_headers("400 unknown ones", {**of.headers, **{f"x-{n}": "z" for n in range(400)}}, None)


def _other_nodes(of: Specimen) -> Iterator[Mutation]:
    key = of.event.data.key().split("/")[0]
    body = json.dumps(of.document).replace(json.dumps(key), json.dumps(OTHER))
    named = decode_body(of.payload, body.encode()).key().split("/")[0]
    if named == OTHER:
        yield of.with_body("another node", "in the body", body.encode(), True)


def _forged(of: Specimen) -> Iterator[Mutation]:
    """In the name of a service or of another agent, and answers for another id than the subject's. A source grants
    nothing: what a message may say follows from its subject."""
    if not of.payload.FROM_AGENT:
        return
    for source in (*service_names(), f"agent/{OTHER}"):
        headers = {**of.headers, "ce-source": source}
        yield Mutation("forged: source", source, of.payload, of.event.subject, headers, encode(of.event).body, None)
    for part in of.event.data.key().split("/")[1:]:
        body = json.dumps(of.document).replace(json.dumps(part), json.dumps(new_id()))
        if decode_body(of.payload, body.encode()).key() != of.event.data.key():
            yield of.with_body("forged: answer", "another id than the subject's", body.encode(), True)


def _repeats(of: Specimen) -> Iterator[Mutation]:
    body = encode(of.event).body
    yield of.with_body("repeat", "first", body, None)
    yield of.with_body("repeat", "the same under another id", body, None)


def _amounts(of: Specimen) -> Iterator[Mutation]:
    """Amounts that fit every column but no machine."""
    refused = True if of.payload.TYPE in _OF_ONE_MACHINE else None
    for place, value in of.places:
        if not _is_number(value) or _is_free(place):
            continue
        if any("cpu" in str(step) for step in place) and place[-1] not in ("count", "samples"):
            surely = refused if isinstance(value, int) and "topology" not in place else None
            yield of.with_value("implausible: 10^9 cores", place, CORES_OF_NO_MACHINE, surely)
            yield of.with_value("implausible: 100 times the machine", place, 800_000, None)
        elif any("memory" in str(step) for step in place) and place[-1] not in ("count", "samples"):
            surely = refused if isinstance(value, int) else None
            yield of.with_value("implausible: 1 EiB", place, MEMORY_OF_NO_MACHINE, surely)


def _places(value: Any, before: Place = ()) -> Iterator[tuple[Place, Any]]:
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = [(0, value[0])] if value else []
    for key, item in inner:
        yield (*before, key), item
        yield from _places(item, (*before, key))


def put(document: Any, place: Place, value: Any) -> None:
    for key in place[:-1]:
        document = document[key]
    document[place[-1]] = value


def remove(document: Any, place: Place) -> None:
    for key in place[:-1]:
        document = document[key]
    del document[place[-1]]


def dotted(place: Place) -> str:
    return ".".join(map(str, place))


def fresh(mutation: Mutation) -> Mutation:
    """The same message with a new id, if its id is valid."""
    if len(mutation.headers.get("ce-id", "")) != len(new_id()):
        return mutation
    headers = {**mutation.headers, "ce-id": str(uuid.uuid4())}
    return Mutation(mutation.family, mutation.what, mutation.payload, mutation.subject, headers, mutation.body,
                    mutation.refused)  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) > len("2026-01-01")


def _is_free(place: Place) -> bool:
    return any(step in _FREE_FORM for step in place)
