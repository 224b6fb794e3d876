from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from slackwater.backtest.domain.oracle import oracle, sliding_maximum
from slackwater.traces.placement import Stays, churned, seating


def stays(*rows: tuple[int, int, int, int], machines: int = 1) -> Stays:
    """(machine, series, begin, end)"""
    machine, series, begin, end = np.array(rows, dtype=np.intp).T
    return Stays(machine, series, begin, end, machines)


def test_the_oracle_is_the_highest_sum_of_the_cells_after_the_moment() -> None:
    usage = np.array([[9, 9], [1, 0], [0, 2], [3, 3], [5, 0], [0, 0]], np.float32)
    found = oracle(usage, stays((0, 0, 0, 6), (0, 1, 0, 6)), horizon=2)
    assert found[:4, 0].tolist() == [2, 6, 6, 5]
    assert np.isnan(found[4:]).all()


def test_leaving_workloads_count_until_they_leave_and_later_ones_do_not() -> None:
    usage = np.array([[1, 0], [1, 0], [8, 7], [8, 7], [8, 7], [8, 7]], np.float32)
    leaves = stays((0, 0, 0, 3), (0, 1, 2, 6))
    found = oracle(usage, leaves, horizon=2)
    assert found[:4, 0].tolist() == [
        8,  # the first is still there in cell 2; the second, which comes then, is no part of the set of cell 0
        8,
        7,  # of cell 2 both are members, but the first is gone from cell 3 on
        7,
    ]


def test_a_machine_without_members_has_no_peak() -> None:
    usage = np.full((6, 1), 4, np.float32)
    found = oracle(usage, stays((1, 0, 2, 4), machines=2), horizon=1)
    assert found[:5, 0].tolist() == [0] * 5
    assert found[:5, 1].tolist() == [0, 0, 4, 0, 0]


def test_a_series_that_returns_is_a_new_pod() -> None:
    usage = np.array([[1], [2], [0], [9], [9], [9]], np.float32)
    found = oracle(usage, stays((0, 0, 0, 2), (0, 0, 3, 6)), horizon=3)
    assert found[:3, 0].tolist() == [2, 0, 0]


@given(
    arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 100)),
    st.integers(1, 20),
)
def test_the_sliding_maximum_is_the_maximum_of_each_window(values: np.ndarray, width: int) -> None:
    expected = [values[at : at + width].max() for at in range(len(values) - width + 1)]
    assert sliding_maximum(values, width).tolist() == expected


@given(st.integers(0, 10_000), st.integers(2, 9), st.floats(1.0, 30.0), st.integers(1, 12))
def test_it_agrees_with_looking_at_every_moment(seed: int, series: int, mean: float, horizon: int) -> None:
    """Under churn, with births and deaths: the quick way by arrivals against the definition."""
    chance = np.random.default_rng(seed)
    usage = chance.integers(0, 50, (40, series)).astype(np.float32)
    present = np.ones(usage.shape, bool)
    present[: int(chance.integers(0, 15)), 0] = False
    present[int(chance.integers(20, 40)) :, series - 1] = False
    placed = churned(present, 1, mean, chance)
    found = oracle(usage, placed, horizon)
    for cell, seats in zip(range(len(usage) - horizon), seating(placed, series, len(usage)), strict=False):
        expected = np.zeros(placed.machines)
        for ahead in range(cell + 1, cell + 1 + horizon):
            still_there = placed.end[seats.stay] > ahead
            sums = np.bincount(
                seats.machine[still_there],
                weights=usage[ahead, seats.series[still_there]],
                minlength=placed.machines,
            )
            expected = np.maximum(expected, sums)
        assert found[cell].tolist() == expected.tolist()
