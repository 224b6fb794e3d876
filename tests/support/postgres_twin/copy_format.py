"""Decodes PostgreSQL's binary COPY format. Arrays of numbers stay as they are until an element is read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.postgres_twin.functions import elements_of
from tests.support.postgres_twin.values import WireArray

_HEADER_BYTES = 19
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_INT64 = struct.Struct(">q")
_LENGTH = struct.Struct(">i")

_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "bigint": lambda wire: _INT64.unpack(wire)[0],
    "timestamptz": lambda wire: _EPOCH + timedelta(microseconds=_INT64.unpack(wire)[0]),
    "text": bytes.decode,
    "text[]": lambda wire: elements_of(WireArray(wire)),
    "bigint[]": WireArray,
    "double precision[]": WireArray,
}


def decoded_rows(body: bytes, kinds: Sequence[str]) -> list[list[Any]]:
    """Returns the rows of a COPY, by the types of its columns."""
    decoders = [_DECODERS[kind] for kind in kinds]
    rows, place = [], _HEADER_BYTES
    while body[place : place + 2] != b"\xff\xff":
        place += 2
        row = []
        for decode in decoders:
            (size,) = _LENGTH.unpack_from(body, place)
            place += 4
            row.append(None if size < 0 else decode(body[place : place + size]))
            place += max(0, size)
        rows.append(row)
    return rows
