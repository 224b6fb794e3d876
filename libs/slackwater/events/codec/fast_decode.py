"""Fast decoding of the most frequent events; pydantic remains the reference for all others.

A fast reader accepts only what both readers interpret alike, and returns the same payload as
pydantic within the same bounds (checked by tests/unit/bus/test_fast_decode.py). Everything else (another
spelling of a number or a time, a missing field, a value out of bounds, invalid JSON) goes to
pydantic, which accepts it or names the error. Bodies are UTF-8 without NUL here: `cloudevents` has
checked that.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BaseModel

from slackwater.events import report_columns, window_columns
from slackwater.events.envelope import Payload, built
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.pods_rostered import PodsRostered
from slackwater.model.bounds import rule_check

P = TypeVar("P", bound=Payload)

_BELOW_MICROSECONDS = re.compile(rb'\.\d{7,}[Zz+"-]')
"""A time finer than a microsecond: one reader rounds it, the other truncates it."""


def read(payload: type[P], body: bytes) -> P | None:
    """Returns the payload in `body`; None if pydantic must decode it."""
    fields = _fields(_READERS.get(payload), body)
    return None if fields is None else built(payload, fields)


def read_columns(payload: type[Payload], body: bytes) -> dict[str, Any] | None:
    """Returns the fields of an event that travels as columns; None if pydantic must decode it."""
    return _fields(_COLUMNS.get(payload.wire()), body)


def _fields(reader: Callable[[bytes], msgspec.Struct] | None, body: bytes) -> dict[str, Any] | None:
    if reader is None or b"\\" in body or _BELOW_MICROSECONDS.search(body):
        return None
    try:
        return msgspec.structs.asdict(reader(body))
    except _REFUSED:
        return None


_REFUSED = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, OverflowError, RecursionError)


def _reader(payload: type[BaseModel], light: Light | None = None) -> Callable[[bytes], msgspec.Struct]:
    """Returns a decoder to a struct with the payload's fields, whose values must be dataclasses and
    plain values; `light` replaces some dataclasses.
    """
    hints = get_type_hints(payload, include_extras=True)
    fields: list[tuple[str, Any, Any]] = []
    for name, field in payload.model_fields.items():
        kind = light.kind(hints[name]) if light is not None else hints[name]
        given: Callable[[], Any] = partial(field.get_default, call_default_factory=True, validated_data={})
        if field.default_factory is None and isinstance(field.default, Hashable):  # it cannot change: no copy is needed
            given = partial(_same, field.default)
        plain = field.default_factory is None and (field.default is None or field.default == ())
        optional = field.default if plain else msgspec.field(default_factory=given)
        default = msgspec.NODEFAULT if field.is_required() else optional
        fields.append((name, kind, default))
    body = msgspec.defstruct(f"{payload.__name__}Body", fields, kw_only=True, gc=False)
    return within_rules(msgspec.json.Decoder(body).decode, [(name, kind) for name, kind, _ in fields])


def _same(value: Any) -> Any:
    return value


def within_rules(
    decode: Callable[[bytes], msgspec.Struct], fields: Sequence[tuple[str, Any]]
) -> Callable[[bytes], msgspec.Struct]:
    """Returns `decode` followed by the field rules that msgspec cannot express
    (slackwater.model.bounds.ValueRule).

    The returned function raises msgspec.ValidationError for a value that breaks one.
    """
    checks = [(name, check) for name, kind in fields if (check := rule_check(kind)) is not None]

    def read_within_rules(body: bytes) -> msgspec.Struct:
        decoded = decode(body)
        for name, check in checks:
            problem = check(getattr(decoded, name))
            if problem is not None:
                raise msgspec.ValidationError(f"{name}: {problem}")
        return decoded

    return read_within_rules


class Light:
    """Structs that replace the dataclasses of columns."""

    def __init__(self) -> None:
        self._made: dict[type, type[msgspec.Struct]] = {}

    def kind(self, kind: Any) -> Any:
        """Returns the type with its dataclasses replaced by structs."""
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return Annotated[(self.kind(arguments[0]), *arguments[1:])]
        if origin is tuple:
            return tuple[tuple(self.kind(argument) for argument in arguments)]  # type: ignore[misc]  # made at run time
        if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind.__module__ in _OF_COLUMNS:
            return self._struct(kind)
        return kind

    def _struct(self, shape: type) -> type[msgspec.Struct]:
        if shape not in self._made:
            hints = get_type_hints(shape, include_extras=True)
            fields = [
                (field.name, self.kind(hints[field.name]), self._default(field))
                for field in dataclasses.fields(cast(Any, shape))
            ]
            self._made[shape] = msgspec.defstruct(f"Light{shape.__name__}", fields, frozen=True, gc=False)
        return self._made[shape]

    def _default(self, field: dataclasses.Field[Any]) -> Any:
        if field.default is dataclasses.MISSING:
            return msgspec.NODEFAULT
        if type(field.default) in self._made:
            return self._made[type(field.default)](**dataclasses.asdict(field.default))
        return field.default


_READERS: Mapping[type[Payload], Callable[[bytes], msgspec.Struct]] = {
    payload: _reader(payload) for payload in (PeakPredicted, PodsRostered)
}
_OF_COLUMNS = (report_columns.__name__, window_columns.__name__)
_COLUMNS: Mapping[type[BaseModel], Callable[[bytes], msgspec.Struct]] = {
    columns: _reader(columns, Light()) for columns in (report_columns.ReportColumns, window_columns.WindowColumns)
}
