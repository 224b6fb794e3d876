"""The body of an event: JSON in UTF-8, validated wholly. What cannot be read is refused with a code."""

from __future__ import annotations

import re
from typing import TypeVar

from pydantic import ValidationError

from slackwater.events.codec import fast_decode
from slackwater.events.envelope import Payload
from slackwater.model.errors import InvalidInput

P = TypeVar("P", bound=Payload)


_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
"""One escape sequence of a JSON string; matching it whole keeps an escaped backslash before a `u`
apart.
"""


UNDECODABLE_CODES = frozenset(
    {
        *("unknown_type", "wrong_version", "missing_attribute", "invalid_attribute", "malformed_text"),
        *("malformed_json", "invalid_payload", "wrong_subject", "decoder_failed"),
    }
)


class Undecodable(InvalidInput):
    """A message that no installed version can read. `code` is one of UNDECODABLE_CODES."""

    code = "invalid_payload"


def decode_body(payload: type[P], body: bytes, read: fast_decode.Read = fast_decode.read) -> P:
    """Returns the payload in a body, fully validated. Raises Undecodable."""
    check_text(body)
    known = read(payload, body)
    return validated(payload, body) if known is None else known


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
    if b"\\u" in body:
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


def validated(payload: type[P], body: bytes) -> P:
    """Returns the payload from the full validator: reads what the fast decoder cannot, and gives
    invalid bodies their reason.
    """
    try:
        return payload.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise Undecodable(f"body is not JSON: {first['msg']}", code="malformed_json") from None
        field = ".".join(map(str, first["loc"]))
        message = f"{payload.TYPE}: {error.error_count()} invalid field(s), first {field or '(body)'}: {first['msg']}"
        raise Undecodable(message, code="invalid_payload", field=field) from None
