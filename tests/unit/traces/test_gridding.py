from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.traces.grid import Samples, fill_gaps, grid
from slackwater.traces.options import TraceResource
from slackwater.traces.trace import Repairs, Trace

Row = tuple[int, int, float, float]
"""(series, seconds, usage, limit)"""


def gridded(rows: list[Row], names: tuple[str, ...] = ("a", "b"), workloads: tuple[str, ...] | None = None) -> Trace:
    series, seconds, usage, limit = zip(*rows, strict=True)
    samples = Samples(
        np.array(series, np.intp), np.array(seconds), np.array(usage, np.float64), np.array(limit, np.float64)
    )
    return grid(samples, names, workloads or names, title="made", resource=TraceResource.CPU)


def test_a_row_falls_into_the_cell_of_its_time() -> None:
    trace = gridded([(0, 600, 1, 9), (0, 899, 3, 9), (0, 900, 5, 9), (1, 1210, 7, 9)])
    assert trace.start_seconds == 600
    assert trace.usage[:, 0].tolist() == [2, 5, 0]  # two rows in the first cell: their mean
    assert trace.usage[:, 1].tolist() == [0, 0, 7]
    assert trace.present.T.tolist() == [[True, True, False], [False, False, True]]
    assert trace.repairs == Repairs(rows=4, doubled=1)
    assert trace.end_of(0) == 900


def test_usage_is_cut_to_the_limit_and_a_limit_of_zero_is_no_sample() -> None:
    trace = gridded([(0, 0, 12, 9), (0, 300, 1, 0), (0, 600, 2, 9), (1, 0, 3, 0)])
    assert trace.names == ["a"]
    assert trace.usage[:, 0].tolist() == [9, 9, 2]  # the middle one is filled
    assert trace.limit[:, 0].tolist() == [9, 9, 9]
    assert trace.repairs == Repairs(rows=4, unusable=2, over_limit=1, filled=1, empty_series=1)


@pytest.mark.parametrize("bad", [(np.nan, 9.0), (-1.0, 9.0), (np.inf, 9.0), (1.0, np.nan), (1.0, -9.0), (1.0, np.inf)])
def test_what_is_no_amount_is_left_out(bad: tuple[float, float]) -> None:
    trace = gridded([(0, 0, 4, 9), (0, 300, *bad), (1, 300, 1, 9)])
    assert trace.repairs.unusable == 1
    assert trace.usage[:, 0].tolist() == [4, 0]


def test_nothing_usable_is_an_error_that_says_what_is_needed() -> None:
    with pytest.raises(InvalidInput, match="no usable row among 1; a row needs a usage >= 0 and a limit > 0"):
        gridded([(0, 0, 1, 0)])


def test_times_in_milliseconds_are_noticed() -> None:
    with pytest.raises(InvalidInput, match="times must be seconds"):
        gridded([(0, 0, 1, 9), (1, 1_375_308_176_000, 1, 9)])


def test_gaps_up_to_the_longest_are_filled_and_longer_ones_are_absences() -> None:
    known = np.array([[1, 1], [0, 0], [0, 0], [1, 0], [0, 1], [0, 0]], bool)
    usage = np.where(known, np.float32(5), np.float32(0)) + np.arange(6, dtype=np.float32)[:, None] * known
    limit = usage + 1
    assert fill_gaps(known, usage, limit, longest=2) == 2
    assert known.T.astype(int).tolist() == [[1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 1, 0]]
    assert usage[:, 0].tolist() == [5, 5, 5, 8, 0, 0]
    assert limit[:, 1].tolist() == [6, 0, 0, 0, 10, 0]


def test_pods_of_a_workload_share_its_number() -> None:
    rows = [(n, 0, 1.0, 9.0) for n in range(3)]
    trace = gridded(rows, names=("web-1", "db-1", "web-2"), workloads=("web", "db", "web"))
    assert trace.workload.tolist() == [1, 0, 1]


rows_of_two = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 5000), st.floats(0, 50), st.floats(1, 60)), min_size=2, max_size=30
)


@given(rows_of_two, st.randoms(use_true_random=False))
def test_the_order_of_rows_makes_no_difference_and_usage_stays_below_the_limit(
    rows: list[Row], shuffle: object
) -> None:
    one = gridded(rows)
    mixed = list(rows)
    shuffle.shuffle(mixed)  # type: ignore[attr-defined] # hypothesis hands out a random.Random
    other = gridded(mixed)
    assert np.allclose(one.usage, other.usage, rtol=1e-6)
    assert np.array_equal(one.present, other.present)
    assert (one.usage <= one.limit * (1 + 1e-6)).all()
    assert (one.limit[one.present] > 0).all()
    assert (one.usage[~one.present] == 0).all()
