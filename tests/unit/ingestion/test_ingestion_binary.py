"""The bytes of many rows at once are those of the readable rows, value by value."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH
from tests.support.reports import pod

from slackwater.ingestion.adapters import binary
from slackwater.ingestion.adapters.rows import REPORT_PODS, report_pods
from slackwater.ingestion.domain.columns import NO_LIMIT, columns_of, rows_of
from slackwater.ingestion.domain.reports import HistoryRow, MeasuredPod, Report, UsageSeries
from slackwater.model.tiers import Tier

bigints = st.integers(-(2**63), 2**63 - 1)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
series = st.builds(lambda values: UsageSeries(*values), st.lists(bigints, min_size=8, max_size=8))
shares = st.none() | st.floats(allow_nan=False)
limits = st.none() | bigints.filter(lambda limit: limit != NO_LIMIT)
pods = st.builds(MeasuredPod, st.builds(pod, words, st.sampled_from(Tier)), series, series, limits, shares, shares)


def row(node: str, epoch: str, sequence: int, seconds: float, own: list[MeasuredPod]) -> HistoryRow:
    moment, nothing = EPOCH + timedelta(seconds=seconds), UsageSeries(*[0] * 8)
    return HistoryRow(Report(node, epoch, sequence, moment, 5.0, nothing, nothing, pods=tuple(own)), EPOCH)


rows = st.builds(row, words, words, bigints, st.floats(0, 10**6), st.lists(pods, max_size=3))


def encoded(value: Any) -> bytes:
    """One value as PostgreSQL's binary protocol has it, its length first."""
    if isinstance(value, list | UsageSeries):
        body = array(value)
    elif isinstance(value, datetime):
        body = struct.pack(">q", (value - datetime(2000, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
    elif isinstance(value, str):
        body = value.encode()
    else:
        body = struct.pack(">q" if isinstance(value, int) else ">d", value)
    return struct.pack(">i", len(body)) + body


def array(values: Sequence[Any]) -> bytes:
    """With one dimension, or with two."""
    sizes, elements = [len(values)], values
    if isinstance(values[0], UsageSeries):
        sizes, elements = [len(values), len(values[0])], [one for row in values for one in row]
    kind = {int: 20, float: 701}.get(type(elements[0]), 25)
    dimensions = b"".join(struct.pack(">ii", size, 1) for size in sizes)
    return struct.pack(">iii", len(sizes), 0, kind) + dimensions + b"".join(map(encoded, elements))


@given(st.lists(rows, max_size=4))
def test_every_row_is_encoded_as_its_values_are(found: list[HistoryRow]) -> None:
    order = [REPORT_PODS.index(column) for column in binary.COLUMNS]
    identities = binary.Identities()
    expected = [
        struct.pack(">h", len(order)) + b"".join(encoded(report_pods(row)[position]) for position in order)
        for row in found
        if row.report.pods
    ]
    for _ in range(2):  # the second time with what is remembered of the first
        body = binary.report_pods(columns_of(found), identities)
        assert body == b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"".join(expected) + b"\xff\xff"


def test_both_ways_fill_the_same_columns() -> None:
    assert sorted(binary.COLUMNS) == sorted(REPORT_PODS)


@pytest.mark.parametrize(("cpu", "limit"), [(2**63, None), (0, 2**63)])
def test_a_value_that_is_no_bigint_is_an_error(cpu: int, limit: int | None) -> None:
    one = MeasuredPod(pod("a"), UsageSeries(*[cpu] * 8), UsageSeries(*[0] * 8), limit)
    with pytest.raises(OverflowError):
        columns_of([row("n", "b", 1, 0, [one])])


def test_a_sequence_that_is_no_bigint_is_an_error() -> None:
    one = MeasuredPod(pod("a"), UsageSeries(*[0] * 8), UsageSeries(*[0] * 8))
    with pytest.raises(OverflowError):
        binary.report_pods(columns_of([row("n", "b", 2**63, 0, [one])]), binary.Identities())


@given(st.lists(rows, max_size=4))
def test_columns_give_the_same_reports_back(found: list[HistoryRow]) -> None:
    assert rows_of(columns_of(found)) == found
