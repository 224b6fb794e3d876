"""Rows of `pod_usage` in PostgreSQL's binary COPY format, many at once: thirty of them come with every report.

What the driver does value by value is done here with one NumPy copy per column; `rows.pod_usage` is the readable
reference, and tests hold the two to the same bytes. Columns of fixed width stand together at the end of the row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.columns import Extras, History
from slackwater.model.tiers import Tier

COLUMNS = (
    "midpoint_at", "sequence", "node", "boot_epoch", "uid", "tier", "cpu_limit_milli", "throttled_ratio",
    "cpu_pressure", "cpu", "memory",
)  # fmt: skip

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NULL = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct(">i")
_BIGINT = struct.Struct(">iq")
_DOUBLE = struct.Struct(">id")
_HEAD = struct.Struct(">hiqiq")  # how many columns, then midpoint_at and sequence, each with its length

_VALUES = 8
_ARRAY_HEAD = struct.pack(">iiiiii", 20 + 12 * _VALUES, 1, 0, 20, _VALUES, 1)  # bytes, dimensions, nulls, bigint, 1..8
_ARRAY = _ARRAY_HEAD + _BIGINT.pack(8, 0) * _VALUES
_TWO_ARRAYS = np.frombuffer(_ARRAY * 2, dtype=np.uint8)
_OFFSETS = [len(_ARRAY) * array + len(_ARRAY_HEAD) + 12 * value + 4 for array in range(2) for value in range(_VALUES)]
_TIERS = {tier: _LENGTH.pack(len(tier)) + tier.encode() for tier in Tier}


def pod_usage(history: History) -> bytes:
    """All pods of all rows. Raises OverflowError for what is no bigint, UnicodeEncodeError for what is no text."""
    return b"".join(chain((_SIGNATURE,), _pieces(history), (_TRAILER,)))


def _pieces(history: History) -> Iterator[bytes | memoryview]:
    pods = history.pods
    arrays = memoryview(_arrays(pods.cpu, pods.memory))
    width, position = len(_TWO_ARRAYS), 0
    extras = iter(pods.extras)
    for row, described in zip(history.rows, history.described(), strict=True):
        report = row.report
        head = _HEAD.pack(len(COLUMNS), 8, (report.midpoint_at - _EPOCH) // _MICROSECOND, 8, report.sequence)
        head += _text(report.node) + _text(report.boot_epoch)
        for pod in described:
            yield head
            yield _text(pod.uid)
            yield _TIERS[pod.tier]
            yield _optional(next(extras))
            yield arrays[position : position + width]
            position += width


def _arrays(cpu: NDArray[np.int64], memory: NDArray[np.int64]) -> bytes:
    """The columns cpu and memory (n x 8) of every pod, one after the other."""
    in_order = np.concatenate((cpu, memory), axis=1).astype(">i8").view(np.uint8).reshape(len(cpu), 2 * _VALUES, 8)
    table = np.tile(_TWO_ARRAYS, (len(cpu), 1))
    for column, offset in enumerate(_OFFSETS):
        table[:, offset : offset + 8] = in_order[:, column]
    return table.tobytes()


def _optional(extras: Extras) -> bytes:
    limit, throttled, pressure = extras
    return (
        (_NULL if limit is None else _bigint(limit))
        + (_NULL if throttled is None else _DOUBLE.pack(8, throttled))
        + (_NULL if pressure is None else _DOUBLE.pack(8, pressure))
    )


def _bigint(value: int) -> bytes:
    try:
        return _BIGINT.pack(8, value)
    except struct.error as error:
        raise OverflowError(f"{value} is no bigint") from error


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def series_of(arrays: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The columns cpu and memory (n x 8) of what `array_send` gives for them, pod after pod."""
    wire = np.frombuffer(arrays, dtype=np.uint8).reshape(-1, 2, len(_ARRAY) - 4)  # without the length in bytes
    values = wire[:, :, len(_ARRAY_HEAD) - 4 :].reshape(-1, 2, _VALUES, 12)[:, :, :, 4:]
    table = np.ascontiguousarray(values).view(">i8").reshape(-1, 2, _VALUES).astype(np.int64)
    return table[:, 0], table[:, 1]
