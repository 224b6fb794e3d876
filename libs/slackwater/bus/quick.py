"""The quick way to read the bodies that come by the thousand; pydantic remains the judge of all others.

A quick reader takes only what both readers understand alike and gives the very payload that pydantic would give
(held by tests/unit/bus/test_quick.py). Whatever it does not take (another spelling of a number or a time, a missing
field, no JSON at all) goes to pydantic, which accepts it or says what is wrong. So nothing is accepted that was not
accepted before, and every refusal reads as before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from slackwater.events.envelope import Payload
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed

P = TypeVar("P", bound=Payload)

_BELOW_MICROSECONDS = re.compile(rb'\.\d{7,}[Zz+"-]')
"""A time that is finer than a microsecond: one reader rounds it, the other cuts it."""


def read(payload: type[P], body: bytes) -> P | None:
    """The payload in `body`; None if pydantic has to be asked."""
    reader = _READERS.get(payload)
    if reader is None or b"\\" in body or _BELOW_MICROSECONDS.search(body):
        return None
    try:
        found = reader(body)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return None
    values = {name: getattr(found, name) for name in found.__struct_fields__}
    return cast(P, payload.model_construct(set(values), **values))


def _reader(payload: type[Payload]) -> Callable[[bytes], msgspec.Struct]:
    """A decoder of a struct with the fields of the payload. What they hold must be dataclasses and plain values."""
    hints = get_type_hints(payload)
    fields: list[tuple[str, Any, Any]] = []
    for name, field in payload.model_fields.items():
        default = msgspec.NODEFAULT if field.is_required() else msgspec.field(default_factory=field.get_default)
        fields.append((name, hints[name], default))
    body = msgspec.defstruct(f"{payload.__name__}Body", fields, kw_only=True, gc=False)
    return msgspec.json.Decoder(body).decode


_READERS: Mapping[type[Payload], Callable[[bytes], msgspec.Struct]] = {
    payload: _reader(payload) for payload in (UsageReported, UsageWindowed, PeakPredicted)
}
