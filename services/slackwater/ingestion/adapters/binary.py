"""Rows of `pod_usage` in PostgreSQL's binary COPY format, many at once: thirty of them come with every report.

What the driver does value by value is done here with one NumPy copy per column; `rows.pod_usage` is the readable
reference, and tests hold the two to the same bytes. Columns of fixed width stand together at the end of the row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.reports import HistoryRow, MeasuredPod
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


def pod_usage(rows: Sequence[HistoryRow]) -> bytes:
    """All pods of all rows. Raises OverflowError for what is no bigint, UnicodeEncodeError for what is no text."""
    return b"".join(chain((_SIGNATURE,), _pieces(rows), (_TRAILER,)))


def _pieces(rows: Sequence[HistoryRow]) -> Iterator[bytes | memoryview]:
    arrays = memoryview(_arrays([measured for row in rows for measured in row.report.pods]))
    width, position = len(_TWO_ARRAYS), 0
    for row in rows:
        report = row.report
        head = _HEAD.pack(len(COLUMNS), 8, (report.midpoint_at - _EPOCH) // _MICROSECOND, 8, report.sequence)
        head += _text(report.node) + _text(report.boot_epoch)
        for measured in report.pods:
            yield head
            yield _text(measured.pod.uid)
            yield _TIERS[measured.pod.tier]
            yield _optional(measured)
            yield arrays[position : position + width]
            position += width


def _arrays(pods: Sequence[MeasuredPod]) -> bytes:
    """The columns cpu and memory of every pod, one after the other."""
    values = chain.from_iterable(chain.from_iterable((measured.cpu, measured.memory) for measured in pods))
    matrix = np.fromiter(values, dtype=np.int64, count=2 * _VALUES * len(pods)).reshape(len(pods), 2 * _VALUES)
    in_order = matrix.astype(">i8").view(np.uint8).reshape(len(pods), 2 * _VALUES, 8)
    table = np.tile(_TWO_ARRAYS, (len(pods), 1))
    for column, offset in enumerate(_OFFSETS):
        table[:, offset : offset + 8] = in_order[:, column]
    return table.tobytes()


def _optional(measured: MeasuredPod) -> bytes:
    """cpu_limit_milli, throttled_ratio, cpu_pressure."""
    limit, throttled, pressure = measured.cpu_limit_milli, measured.throttled_ratio, measured.cpu_pressure
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
