"""Every value of every event has bounds, the same for all readers; texts are such that every store can hold them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from annotated_types import Interval, Len
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, StringConstraints, TypeAdapter, ValidationError
from tests.support.clock import EPOCH
from tests.support.reports import pod_usage, report

from slackwater.bus.codec.cloudevents import decode, encode
from slackwater.events.codec import fast_decode
from slackwater.events.codec.body import Undecodable, check_text
from slackwater.events.envelope import Payload, event_of
from slackwater.events.registry import BROADCASTS, EVENTS
from slackwater.events.usage_reported import UsageReported
from slackwater.model import bounds
from slackwater.model.bounds import EARLIEST, LATEST, FreeForm, OfOneMachine, TimeSpan, ValueRule
from slackwater.model.quantities import Resources

INT64 = 2**63


def unbounded(kind: Any, path: str, metadata: tuple[Any, ...] = ()) -> Iterator[str]:
    """The places inside a type that hold values without bounds."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from unbounded(arguments[0], path, (*metadata, *arguments[1:]))
    elif origin in (Union, UnionType):
        for part in arguments:
            yield from unbounded(part, path, metadata)
    elif origin in (tuple, dict):
        yield from unbounded_items(kind, path, metadata)
    elif kind in (int, float, str, datetime):
        if not any(map(is_bound, metadata)):
            yield f"{path}: any {kind.__name__}"
    elif not is_closed(kind):
        yield from unbounded_fields(kind, path)


def unbounded_items(kind: Any, path: str, metadata: tuple[Any, ...]) -> Iterator[str]:
    if any(isinstance(item, FreeForm) for item in metadata):
        return
    if not any(isinstance(item, Len) for item in metadata):
        yield f"{path}: any number of items"
    for part in get_args(kind):
        if part is not Ellipsis:
            yield from unbounded(part, f"{path}[]")


def is_closed(kind: Any) -> bool:
    return (
        get_origin(kind) is Literal or kind in (bool, type(None)) or (isinstance(kind, type) and issubclass(kind, Enum))
    )


def is_bound(item: Any) -> bool:
    if isinstance(item, Interval):
        return item.ge is not None and item.le is not None and abs(item.ge) <= INT64 and abs(item.le) <= INT64
    return isinstance(item, ValueRule) or (isinstance(item, StringConstraints) and item.max_length is not None)


def unbounded_fields(shape: Any, path: str) -> Iterator[str]:
    assert dataclasses.is_dataclass(shape) or issubclass(shape, BaseModel), f"{path}: {shape}"
    for name, kind in get_type_hints(shape, include_extras=True).items():
        if name.isupper() or name == "model_config" or "ClassVar" in str(kind):
            continue
        yield from unbounded(kind, f"{path}.{name}")


@pytest.mark.parametrize("payload", [*EVENTS, *BROADCASTS], ids=lambda payload: payload.TYPE)
def test_every_value_of_every_event_has_bounds(payload: type[Payload]) -> None:
    assert list(unbounded_fields(payload, payload.TYPE)) == []


def test_the_search_for_missing_bounds_finds_them() -> None:
    class Loose(Payload):
        """Nothing of it is bounded."""

        number: int
        texts: tuple[str, ...]
        labels: dict[str, float]
        at: datetime | None

    assert len(list(unbounded_fields(Loose, "loose"))) == 7


ALIASES = [
    name for name, kind in vars(bounds).items() if get_origin(kind) is Annotated and name not in ("Items", "Mapped")
]


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_says_the_same_to_both_validators(name: str) -> None:
    kind = getattr(bounds, name)
    plain, *metadata = get_args(kind)
    meta = [item for item in metadata if isinstance(item, msgspec.Meta)]
    for item in metadata:
        if isinstance(item, Interval):
            assert (meta[0].ge, meta[0].le) == (item.ge, item.le)
        elif isinstance(item, StringConstraints) or (
            isinstance(item, Len) and not any(isinstance(rule, FreeForm) for rule in metadata)
        ):
            assert meta[0].max_length == item.max_length
    assert plain is datetime or meta or any(isinstance(item, ValueRule) for item in metadata)


@given(st.datetimes())
def test_times_are_in_the_span_and_have_an_offset(moment: datetime) -> None:
    aware = moment.replace(tzinfo=UTC)
    assert (TimeSpan().problem(aware) is None) == (EARLIEST <= aware < LATEST)
    assert TimeSpan().problem(moment) is not None
    if TimeSpan().problem(aware) is None:  # horizons and leases behind the end can still be reckoned with
        assert aware + timedelta(days=365 * 1000) > aware


@given(st.integers(-(2**60), 2**60), st.integers(-(2**60), 2**60))
@example(10**12, 0)
def test_no_machine_has_a_billion_cores(cpu_milli: int, memory_bytes: int) -> None:
    fine = OfOneMachine().problem(Resources(cpu_milli, memory_bytes)) is None
    assert fine == (0 <= cpu_milli <= bounds.MOST_CPU_MILLI and 0 <= memory_bytes <= bounds.MOST_MEMORY_BYTES)


DEEP: Any = json.loads("[" * 40 + "]" * 40)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": [1, 2.5, "x", None, True]}, None),
        ({"a": DEEP}, "levels deep"),
        ({"a": 2**70}, "beyond"),
        ({"a": float("nan")}, "beyond"),
        ({"a": list(range(70_000))}, "more than"),
        ({"a": "x" * (bounds.MOST_DOCUMENT + 1)}, "characters"),
        ({"a": {1, 2}}, "JSON does not have"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_free_form_documents_are_bounded(value: Any, problem: str | None) -> None:
    found = FreeForm().problem(value)
    assert (found is None) if problem is None else (found is not None and problem in found)
    adapter: TypeAdapter[Any] = TypeAdapter(bounds.JsonDocument)
    if problem is not None:
        with pytest.raises(ValidationError):
            adapter.validate_python(value)


@given(st.text(st.characters() | st.characters(categories=["Cs"])), st.booleans())
@example("\x00", True)
@example("\\u0000", True)
@example("\\\ud800", True)
@example("\ud83d\ude00", True)
def test_a_text_that_no_store_holds_is_refused_as_bytes_and_as_escapes(text: str, escaped: bool) -> None:
    body = json.dumps({"text": text}, ensure_ascii=escaped).encode(errors="surrogatepass")
    whole = json.loads(json.dumps({"text": text}))["text"] if escaped else text  # pairs of surrogates are one character
    try:
        whole.encode()
        storable = "\x00" not in whole
    except UnicodeEncodeError:
        storable = False
    if storable:
        check_text(body)
    else:
        with pytest.raises(Undecodable) as refused:
            check_text(body)
        assert refused.value.code == "malformed_text"


SURROGATE = b"\xed\xa0\x80"


@pytest.mark.parametrize("field", ["node", "boot_epoch", "uid", "name", "namespace", "workload"])
def test_a_lone_surrogate_in_any_text_is_refused_by_every_reader(field: str) -> None:
    """Was UnicodeDecodeError out of the lazily read parts, which failed the whole reader (issue 28)."""
    whole = event_of(report("n", 1, EPOCH, pods=[pod_usage("a")]), source="n", time=EPOCH)
    message = encode(whole)
    body = message.body.replace(f'"{field}":"'.encode(), f'"{field}":"'.encode() + SURROGATE, 1)
    assert body != message.body
    with pytest.raises(Undecodable):
        decode(UsageReported, message.headers, body)


@pytest.mark.parametrize("number", [2**63, 2**64, 2**70, 1180591620717411303424, -(2**70), 10**400])
def test_an_integer_that_no_machine_has_is_refused_by_every_reader(number: int) -> None:
    whole = event_of(report("n", 1, EPOCH, pods=[pod_usage("a")]), source="n", time=EPOCH)
    message = encode(whole)
    for field in ("sequence", "p99", "count", "priority", "cpu_milli"):
        written = message.body.decode()
        place = written.index(f'"{field}":')
        start = place + len(field) + 3
        end = start + len(written[start:]) - len(written[start:].lstrip("-0123456789"))
        if end == start:
            continue  # an object
        body = f"{written[:start]}{number}{written[end:]}".encode()
        with pytest.raises(Undecodable):
            decode(UsageReported, message.headers, body)


def test_an_event_beyond_the_budget_is_refused_before_any_model_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = encode(event_of(report("n", 1, EPOCH), source="n", time=EPOCH)).headers
    with pytest.raises(Undecodable) as refused:
        decode(UsageReported, headers, b"[" * 65 + b"]" * 65)
    assert refused.value.code == "beyond_budget"

    def unused(body: bytes) -> Any:
        raise AssertionError("it was typed")

    monkeypatch.setattr(fast_decode, "read_columns", unused)
    with pytest.raises(Undecodable) as refused:
        decode(UsageReported, headers, b'{"pods":[' + b"{}," * 30_000 + b"{}]}")
    assert refused.value.code == "beyond_budget"


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("ce-id", "%00"), ("ce-id", "%ED%A0%80"), ("ce-id", "x" * 600), ("ce-source", "%0A"), ("ce-causedby", "%FF"),
        ("ce-time", "9999-12-31T23:59:59Z"), ("ce-time", "0001-01-01T00:00:00+00:00"),
    ],
)  # fmt: skip
def test_an_attribute_out_of_bounds_is_refused(header: str, text: str) -> None:
    message = encode(event_of(report("n", 1, EPOCH), source="n", time=EPOCH))
    with pytest.raises(Undecodable) as refused:
        decode(UsageReported, {**message.headers, header: text}, message.body)
    assert refused.value.code == "invalid_attribute"


@pytest.mark.parametrize("trace", ["", "x", "%00" * 50, "00-a-b-01"])
def test_a_trace_context_that_is_none_is_left_out(trace: str) -> None:
    message = encode(event_of(report("n", 1, EPOCH), source="n", time=EPOCH))
    assert decode(UsageReported, {**message.headers, "traceparent": trace}, message.body).traceparent is None
