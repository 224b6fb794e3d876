"""Encodes rows of `report_pods` in PostgreSQL's binary COPY format, in batches; the pods of one report are one row.

One NumPy copy per column replaces the driver's encoding value by value. `rows.report_pods` is the readable reference;
tests require identical bytes from both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from slackwater.ingestion.domain.columns import FIELDS, HistoryColumns
from slackwater.model.pods import Pod

COLUMNS = (
    "midpoint_at", "sequence", "node", "boot_epoch", "uids", "tiers", "cpu", "memory", "cpu_limits", "throttled",
    "cpu_pressure",
)  # fmt: skip

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">hiqiq")  # column count, then midpoint_at and sequence, each with its length
_VECTOR = struct.Struct(">iiiiii")  # bytes, dimensions, has nulls, element type, element count, lower bound 1
_MATRIX = struct.Struct(">iiiiiiii")  # the same with two dimensions
_TEXT, _BIGINT, _DOUBLE = 25, 20, 701
_ELEMENT = 12  # bytes of a number and its length prefix
_MATRIX_HEAD = _MATRIX.size - 4


class Identities:
    """Caches the encoded columns `uids` and `tiers` per node, because most reports name the same pods as the last
    one.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[Sequence[Pod], bytes]] = {}

    def of(self, node: str, pods: Sequence[Pod]) -> bytes:
        """Returns the encoded `uids` and `tiers`. Raises UnicodeEncodeError for text that is not valid UTF-8."""
        cached = self._last.get(node)
        if cached is None or cached[0] != pods:
            cached = pods, _texts([pod.uid for pod in pods]) + _texts([pod.tier for pod in pods])
            self._last[node] = cached
        return cached[1]


def report_pods(history: HistoryColumns, identities: Identities) -> bytes:
    """Returns one row for each report that has pods.

    Raises UnicodeEncodeError for text that is not valid UTF-8, OverflowError for a sequence that exceeds bigint.
    """
    return b"".join(chain((_SIGNATURE,), _pieces(history, identities), (_TRAILER,)))


def _pieces(history: HistoryColumns, identities: Identities) -> Iterator[bytes | memoryview]:
    pods = history.pods
    assert pods.asides is not None  # noqa: S101 - columns built from reports have asides
    matrices = [memoryview(_numbers(table, ">i8")) for table in (pods.cpu, pods.memory)]
    limits = memoryview(_numbers(pods.asides.cpu_limit, ">i8"))
    shares = [memoryview(_numbers(column, ">f8")) for column in (pods.asides.throttled, pods.asides.cpu_pressure)]
    for row, described, (start, end) in zip(history.rows, history.described(), history.spans(), strict=True):
        if not described:
            continue
        report, count = row.report, end - start
        yield _head(report.midpoint_at, report.sequence) + _text(report.node) + _text(report.boot_epoch)
        yield identities.of(report.node, described)
        size = count * _ELEMENT
        matrix = _MATRIX.pack(_MATRIX_HEAD + FIELDS * size, 2, 0, _BIGINT, count, 1, FIELDS, 1)
        for elements in matrices:
            yield matrix
            yield elements[start * FIELDS * _ELEMENT : end * FIELDS * _ELEMENT]
        yield _vector(size, _BIGINT, count)
        yield limits[start * _ELEMENT : end * _ELEMENT]
        for elements in shares:
            yield _vector(size, _DOUBLE, count)
            yield elements[start * _ELEMENT : end * _ELEMENT]


def _head(midpoint_at: datetime, sequence: int) -> bytes:
    try:
        return _HEAD.pack(len(COLUMNS), 8, (midpoint_at - _EPOCH) // _MICROSECOND, 8, sequence)
    except struct.error as error:
        raise OverflowError(f"sequence: {sequence} is out of range; it must fit a 64-bit integer") from error


def _numbers(column: NDArray[np.int64] | NDArray[np.float64], kind: str) -> bytes:
    """Returns the values as array elements, each preceded by its length."""
    elements = np.empty(column.size, dtype=[("length", ">i4"), ("value", kind)])
    elements["length"] = 8
    elements["value"] = column.reshape(-1)
    return elements.tobytes()


def _vector(size: int, kind: int, count: int) -> bytes:
    return _VECTOR.pack(_VECTOR.size - 4 + size, 1, 0, kind, count, 1)


def _texts(texts: Sequence[str]) -> bytes:
    elements = b"".join(map(_text, texts))
    return _vector(len(elements), _TEXT, len(texts)) + elements


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def series_of(sent: Sequence[bytes]) -> NDArray[np.int64]:
    """Decodes matrices such as `cpu` and `memory` from `array_send` output into one table of shape n x 8."""
    elements = b"".join(memoryview(matrix)[_MATRIX_HEAD:] for matrix in sent)
    values = np.frombuffer(elements, dtype=[("length", ">i4"), ("value", ">i8")])
    return values["value"].reshape(-1, FIELDS).astype(np.int64)
