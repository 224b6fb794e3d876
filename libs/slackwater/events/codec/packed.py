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
from slackwater.model.bounds import MOST_DOCUMENT

LEVEL: Final = 6


def pack(body: bytes) -> str:
    """Returns the packed form of JSON; the same for the same bytes."""
    return base64.b64encode(zlib.compress(body, LEVEL)).decode("ascii")


def unpack(text: str, most_bytes: int = MOST_DOCUMENT) -> Any:
    """Returns the JSON value in a packed form. Raises ValueError if it is malformed or larger than `most_bytes`;
    no more than that is ever unpacked.
    """
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
        return json.loads(body, parse_constant=_refused)
    except RecursionError:
        raise ValueError("packed: nested too deeply") from None


def _refused(constant: str) -> Never:
    raise ValueError(f"packed: {constant} is not JSON")
