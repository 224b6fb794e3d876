"""The body of an event: JSON in UTF-8, validated wholly. What cannot be read is refused with a code."""

from __future__ import annotations

import re
from typing import Final, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from slackwater.events.codec import fast_decode
from slackwater.events.codec.unknown_values import EventLost, Lost, UnknownValue, without_unknown
from slackwater.events.envelope import Payload
from slackwater.events.report_columns import InvalidColumns
from slackwater.events.rosters import FindRoster, no_roster
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.window_columns import WindowedPods
from slackwater.model.errors import InvalidInput
from slackwater.model.reading_budget import EVENT, BeyondBudget, check_bytes

P = TypeVar("P", bound=Payload)


_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
"""One escape sequence of a JSON string; matching it whole keeps an escaped backslash before a `u`
apart.
"""


UNDECODABLE_CODES = frozenset(
    {
        *("unknown_type", "wrong_version", "missing_attribute", "invalid_attribute", "malformed_text"),
        *("malformed_json", "beyond_budget", "invalid_payload", "unknown_value", "wrong_subject", "decoder_failed"),
        "roster_missing",
    }
)


class Undecodable(InvalidInput):
    """A message that no installed version can read. `code` is one of UNDECODABLE_CODES."""

    code = "invalid_payload"


_TYPED_FREELY: Final = 65_536
"""Bytes up to which a fast decoder is not worth a check: it ends at the first value of another type."""


def decode_body(
    payload: type[P],
    body: bytes,
    lost: Lost | None = None,
    find: FindRoster = no_roster,
) -> P:
    """Returns the payload in a body, fully validated; adds to `lost` what unknown values lose. A report is joined with
    the roster that `find` returns. Raises Undecodable, RosterMissing."""
    check_text(body)
    if len(body) > _TYPED_FREELY:
        _check_budget(body, is_typed=True)
    event = fast_decode.read(payload, body) if payload.WIRE is None else _joined(payload, body, find)
    if event is None:
        event = validated(payload, body, lost, find)
    if lost is not None and isinstance(event, UsageWindowed) and isinstance(event.pods, WindowedPods):
        lost.update(UnknownValue(f"pods.{column}[]", name) for column, name in event.pods.unknown())
    return event


def _joined(payload: type[P], body: bytes, find: FindRoster) -> P | None:
    columns = fast_decode.read_columns(payload, body)
    try:
        return None if columns is None else payload.joined(columns, find)
    except InvalidColumns as error:
        raise _misfit(payload, error) from None


def _misfit(payload: type[Payload], error: InvalidColumns) -> Undecodable:
    return Undecodable(f"{payload.TYPE}: {error}", code="invalid_payload", field="pods")


def check_text(body: bytes) -> None:
    """Raises Undecodable (`malformed_text`) unless the body is UTF-8 without NUL and lone
    surrogates, escaped ones included: PostgreSQL and JSON readers cannot hold them. 1 us for a
    report of 30 pods.
    """
    try:
        body.decode()
    except UnicodeDecodeError as error:
        message = f"body is not UTF-8 at byte {error.start}: {error.reason}"
        raise Undecodable(message, code="malformed_text") from None
    if b"\\" in body and b"\\u" in body:
        _check_escapes(body)


def _check_escapes(body: bytes) -> None:
    high_ends_at = -1
    """End of the first half of a surrogate pair."""
    for match in _ESCAPE.finditer(body):
        unit = -1 if match[1] is None else int(match[1], 16)
        is_second_half = 0xDC00 <= unit <= 0xDFFF
        if unit == 0 or is_second_half != (high_ends_at == match.start()):
            break
        high_ends_at = match.end() if 0xD800 <= unit <= 0xDBFF else -1
        if high_ends_at >= 0 and body[high_ends_at : high_ends_at + 2] != b"\\u":
            break
    else:
        return
    raise Undecodable(f"body has a NUL or a lone surrogate at byte {match.start()}", code="malformed_text")


def validated(payload: type[P], body: bytes, lost: Lost | None = None, find: FindRoster = no_roster) -> P:
    """Returns the payload from the full validator: reads what the fast decoder cannot, leaves out what values of a
    newer version lose, and gives invalid bodies their reason.
    """
    _check_budget(body)
    try:
        document = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Undecodable(f"body is not JSON: {error}", code="malformed_json") from None
    try:
        found = without_unknown(payload, document)
    except EventLost as error:
        field, value = error.unknown.field, error.unknown.value
        message = (
            f"{payload.TYPE}.v{payload.VERSION}: {field} is {value!r}, which this version does not know: "
            "a newer version published it"
        )
        raise Undecodable(message, code="unknown_value", field=field) from None
    try:  # and not model_validate_json: its errors hold copies of what they are about, each missing field one of all
        read = payload.from_document(document, find)
    except InvalidColumns as error:
        raise _misfit(payload, error) from None
    except ValidationError as error:
        # Their context holds what a validator raised, hence its frames, and in them this one: a cycle that would keep
        # what was unpacked until the collector runs, which it does for every hundred thousand objects.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        message = f"{payload.TYPE}: {error.error_count()} invalid field(s), first {field or '(body)'}: {first['msg']}"
        raise Undecodable(message, code="invalid_payload", field=field) from None
    if lost is not None:
        lost.update(found)
    return read


def _check_budget(body: bytes, *, is_typed: bool = False) -> None:
    try:
        check_bytes(body, EVENT, is_typed=is_typed)
    except BeyondBudget as error:
        raise Undecodable(error.message, code=error.code) from None
