"""Packs the large parts of a record for the bus: replay arguments, rejected alternatives and inputs.

A throttle record of a node with 30 pods is 20 kB of JSON, of which these are 19 kB; packed they are under 3 kB. The
packed form is the base64 of the zlib stream of a JSON object with `arguments`, `alternatives` and `inputs`.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from slackwater.decisions.record import Alternative, DecisionRecord, Input

WORTH_PACKING_BYTES: Final = 512
MOST_UNPACKED_BYTES: Final = 4 * 1024 * 1024
"""Limit on unpacking: a larger body is refused. Four times the largest message, so that no plain record exceeds it."""
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""An escaped NUL, which PostgreSQL cannot hold. The check of a message's text does not see packed parts."""
_ALTERNATIVES: Final = TypeAdapter(tuple[Alternative, ...])
_INPUTS: Final = TypeAdapter(tuple[Input, ...])
PARTS: Final = frozenset({"arguments", "alternatives", "inputs"})


def pack(record: DecisionRecord) -> tuple[DecisionRecord, str]:
    """Returns the record without its packed parts, and these parts as text; empty if packing them is not worth it."""
    parts = {
        "arguments": record.replay.arguments,
        "alternatives": _ALTERNATIVES.dump_python(record.alternatives, mode="json"),
        "inputs": _INPUTS.dump_python(record.inputs, mode="json"),
    }
    plain = to_json(parts)
    if not WORTH_PACKING_BYTES <= len(plain) <= MOST_UNPACKED_BYTES:
        return record, ""
    left = {"replay": record.replay.model_copy(update={"arguments": {}}), "alternatives": (), "inputs": ()}
    return record.model_copy(update=left), base64.b64encode(zlib.compress(plain, 9)).decode("ascii")


def unpack(packed: str) -> Mapping[str, Any]:
    """Returns the parts as JSON values. Raises ValueError for text that is no packed object of at most
    MOST_UNPACKED_BYTES; the size is bounded while it is unpacked.
    """
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(base64.b64decode(packed, validate=True), MOST_UNPACKED_BYTES)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"no base64 of a zlib stream: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError(f"not one whole zlib stream of at most {MOST_UNPACKED_BYTES} bytes")
    if _NUL.search(plain):
        raise ValueError("a text has a NUL")
    parts = from_json(plain)
    if not isinstance(parts, dict) or parts.keys() != PARTS:
        raise ValueError("no object with arguments, alternatives and inputs")
    return parts
