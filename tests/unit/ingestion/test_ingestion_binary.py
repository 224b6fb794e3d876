"""The bytes of many rows at once are those of the readable rows, value by value."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.ingestion.adapters import binary
from slackwater.ingestion.adapters.rows import POD_USAGE, pod_usage
from slackwater.ingestion.domain.columns import columns_of
from slackwater.ingestion.domain.reports import HistoryRow, MeasuredPod, Report, Series
from slackwater.model.tiers import Tier
from slackwater.testing.clock import EPOCH
from slackwater.testing.reports import pod

bigints = st.integers(-(2**63), 2**63 - 1)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
series = st.builds(lambda values: Series(*values), st.lists(bigints, min_size=8, max_size=8))
shares = st.none() | st.floats(allow_nan=False)
pods = st.builds(
    MeasuredPod, st.builds(pod, words, st.sampled_from(Tier)), series, series, st.none() | bigints, shares, shares
)


def row(node: str, epoch: str, sequence: int, seconds: float, own: list[MeasuredPod]) -> HistoryRow:
    moment, nothing = EPOCH + timedelta(seconds=seconds), Series(*[0] * 8)
    return HistoryRow(Report(node, epoch, sequence, moment, 5.0, nothing, nothing, pods=tuple(own)), EPOCH)


rows = st.builds(row, words, words, bigints, st.floats(0, 10**6), st.lists(pods, max_size=3))


def encoded(value: Any) -> bytes:
    """One value as PostgreSQL's binary protocol has it, its length first."""
    if value is None:
        return struct.pack(">i", -1)
    if isinstance(value, Series):
        body = struct.pack(">iiiii", 1, 0, 20, 8, 1) + b"".join(map(encoded, value))
    elif isinstance(value, datetime):
        body = struct.pack(">q", (value - datetime(2000, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
    elif isinstance(value, str):
        body = value.encode()
    else:
        body = struct.pack(">q" if isinstance(value, int) else ">d", value)
    return struct.pack(">i", len(body)) + body


@given(st.lists(rows, max_size=4))
def test_every_row_is_encoded_as_its_values_are(found: list[HistoryRow]) -> None:
    order = [POD_USAGE.index(column) for column in binary.COLUMNS]
    tuples = [
        struct.pack(">h", len(order)) + b"".join(encoded(values[position]) for position in order)
        for row in found
        for values in pod_usage(row)
    ]
    assert binary.pod_usage(columns_of(found)) == b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"".join(tuples) + b"\xff\xff"


def test_both_ways_fill_the_same_columns() -> None:
    assert sorted(binary.COLUMNS) == sorted(POD_USAGE)


@pytest.mark.parametrize(("cpu", "limit"), [(2**63, None), (0, 2**63)])
def test_what_is_no_bigint_is_told(cpu: int, limit: int | None) -> None:
    one = MeasuredPod(pod("a"), Series(*[cpu] * 8), Series(*[0] * 8), limit)
    with pytest.raises(OverflowError):
        binary.pod_usage(columns_of([row("n", "b", 1, 0, [one])]))
