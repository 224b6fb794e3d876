"""Parts of an event as compressed text: base64 of zlib of JSON.

For large parts that programs read and people rarely do. The record of a throttle with 30 pods is 20.3 kB as JSON and
4.0 kB with its replay arguments and alternatives packed, for 0.5 ms. A broker's own compression (JetStream S2) would
not do: its limits count the bytes as published.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any, Final, Never

from slackwater.events.codec.body import check_text
from slackwater.model.bounds import MOST_DOCUMENT, MOST_TEXT
from slackwater.model.reading_budget import PACKED, BeyondBudget, check_bytes

LEVEL: Final = 6
_ALWAYS_BYTES: Final = 65_536
_TIMES: Final = 64
"""What a packed text may unpack to, however short, and for each byte of it. JSON of a record unpacks to 5 to 30 times
its length; zlib could give a thousand times.
"""


def pack(body: bytes) -> str:
    """Returns the packed form of JSON; the same for the same bytes."""
    return base64.b64encode(zlib.compress(body, LEVEL)).decode("ascii")


def packed_if_smaller(body: bytes) -> str:
    """Returns the packed form; empty if it is not smaller, too long for a text, or so small beside the body that
    `unpack` would refuse it."""
    text = pack(body)
    return text if len(text) < min(len(body), MOST_TEXT) and len(body) <= _most_unpacked(text) else ""


def _most_unpacked(text: str, always_bytes: int = _ALWAYS_BYTES) -> int:
    return always_bytes + _TIMES * len(text)


def unpack(text: str, most_bytes: int = MOST_DOCUMENT, always_bytes: int = _ALWAYS_BYTES) -> Any:
    """Returns the JSON value in a packed form. Raises ValueError if it is malformed or larger than `most_bytes`;
    no more than that, or than `always_bytes` and 64 times its length, is ever unpacked.
    """
    most_bytes = min(most_bytes, _most_unpacked(text, always_bytes))
    try:
        compressed = base64.b64decode(text, validate=True)
        stream = zlib.decompressobj()
        body = stream.decompress(compressed, most_bytes)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"packed: {error}; base64 of zlib of JSON is needed") from None
    if stream.unconsumed_tail:
        raise ValueError(f"packed: more than {most_bytes} bytes when unpacked")
    if not stream.eof or stream.unused_data:
        raise ValueError("packed: truncated, or followed by other bytes")
    check_text(body)
    try:
        check_bytes(body, PACKED, "packed")
    except BeyondBudget as error:
        raise ValueError(error.message) from None
    return json.loads(body, parse_constant=_refused)


def _refused(constant: str) -> Never:
    raise ValueError(f"packed: {constant} is not JSON")
