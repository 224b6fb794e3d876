"""Histories put together and taken apart; layouts that cannot be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.peaks.buckets import CPU_MILLI, ExponentialBuckets, LinearBuckets
from slackwater.peaks.histogram import HistogramMatrix

HALF_LIFE = 3600.0
START = 1_700_000_000.0
SAMPLES = st.lists(st.tuples(st.floats(0, 2e6), st.floats(0, 300 * HALF_LIFE)), max_size=20)


def histogram(samples: list[tuple[float, float]], half_life: float = HALF_LIFE) -> HistogramMatrix:
    made = HistogramMatrix(CPU_MILLI, half_life)
    made.ensure_rows(1)
    made.ensure_columns(CPU_MILLI.count)
    for value, after in samples:
        made.add(np.array([0]), np.array([value]), np.array([START + after]))
    return made


def read(made: HistogramMatrix, share: float) -> float:
    return float(made.percentile(np.array([0]), share)[0])


def relative(made: HistogramMatrix) -> Any:
    """Weights as if the last reference were START: what two histories can be compared by."""
    return np.ldexp(made.weights[0], round((made.reference[0] - START) / HALF_LIFE))


@given(SAMPLES, SAMPLES)
def test_merging_two_histories_equals_the_history_of_both(a: list[Any], b: list[Any]) -> None:
    merged, both = histogram(a), histogram(a + b)
    merged.merge(0, histogram(b), 0)
    np.testing.assert_allclose(relative(merged), relative(both), rtol=1e-9, atol=1e-25)


@given(SAMPLES, SAMPLES)
def test_it_does_not_matter_which_is_merged_into_which(a: list[Any], b: list[Any]) -> None:
    one, other = histogram(a), histogram(b)
    one.merge(0, histogram(b), 0)
    other.merge(0, histogram(a), 0)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-12)
    np.testing.assert_allclose(one.totals, other.totals, rtol=1e-12)


def of_rows(rows: list[list[tuple[float, float]]]) -> HistogramMatrix:
    made = HistogramMatrix(CPU_MILLI, HALF_LIFE)
    made.ensure_rows(len(rows))
    made.ensure_columns(CPU_MILLI.count)
    for row, samples in enumerate(rows):
        for value, after in samples:
            made.add(np.array([row]), np.array([value]), np.array([START + after]))
    return made


@given(st.lists(st.tuples(SAMPLES, SAMPLES), min_size=1, max_size=3))
def test_absorbing_a_matrix_is_merging_each_of_its_rows(rows: list[tuple[list[Any], list[Any]]]) -> None:
    ours, theirs = [of_rows([pair[which] for pair in rows]) for which in (0, 1)]
    one_by_one = of_rows([a for a, _ in rows])
    for row in range(len(rows)):
        one_by_one.merge(row, theirs, row)
    ours.absorb(theirs)
    np.testing.assert_array_equal(ours.reference, one_by_one.reference)
    np.testing.assert_array_equal(ours.weights, one_by_one.weights)
    np.testing.assert_array_equal(ours.totals, one_by_one.totals)
    with pytest.raises(InvalidInput, match="equal buckets"):
        ours.absorb(HistogramMatrix(CPU_MILLI, 60.0))


def test_only_the_same_layout_and_half_life_merge() -> None:
    with pytest.raises(InvalidInput, match="equal buckets"):
        histogram([]).merge(0, histogram([], half_life=60.0), 0)


@given(SAMPLES, st.tuples(st.floats(0, 2e6), st.floats(0, 3 * HALF_LIFE)))
def test_what_is_taken_back_was_never_there(samples: list[Any], extra: tuple[float, float]) -> None:
    recent = [(value, after % (3 * HALF_LIFE)) for value, after in samples]
    with_extra, without = histogram([*recent, extra]), histogram(recent)
    value, at = np.array([extra[0]]), np.array([START + extra[1]])
    with_extra.subtract(np.array([0]), value, at)
    np.testing.assert_allclose(with_extra.weights[0] * (with_extra.weights[0] > 1e-3), relative_to(with_extra, without))


def relative_to(like: HistogramMatrix, other: HistogramMatrix) -> Any:
    """The weights of `other` as seen from the reference of `like`."""
    if not other.totals[0]:
        return np.zeros_like(other.weights[0])
    return np.ldexp(other.weights[0], round((other.reference[0] - like.reference[0]) / HALF_LIFE))


def test_empty_is_what_holds_less_than_epsilon_in_every_bucket() -> None:
    made = HistogramMatrix(LinearBuckets(0.1, 1.0), HALF_LIFE, epsilon=1.0)
    made.ensure_rows(2)
    made.add(np.array([0, 0, 1]), np.array([0.1, 0.2, 0.1]), np.zeros(3), np.array([0.6, 0.6, 1.2]))
    assert made.is_empty(np.array([0, 1])).tolist() == [True, False]


@given(st.floats(0, 1e4), st.floats(0.01, 10), st.floats(1, 1e4))
def test_a_value_lies_between_the_ends_of_its_linear_bucket(value: float, size: float, maximum: float) -> None:
    layout = LinearBuckets(size, maximum)
    found = int(layout.find(np.array([value]))[0])
    assert layout.starts[found] <= value * (1 + 1e-12)
    assert found == layout.count - 1 or value <= layout.starts[found + 1] * (1 + 1e-12)


@pytest.mark.parametrize("layout", [LinearBuckets(1.0, 10.0), ExponentialBuckets(1.0, 10.0, 1.5)])
def test_no_value_is_outside_of_a_layout(layout: Any) -> None:
    found = layout.find(np.array([-math.inf, -1.0, 0.0, 1e300, math.inf]))
    assert found.tolist() == [0, 0, 0, layout.count - 1, layout.count - 1]


@pytest.mark.parametrize("fields", [(0.0, 10.0), (1.0, 0.0), (-1.0, 10.0), (math.nan, 10.0), (1.0, math.inf)])
def test_a_layout_that_covers_nothing_is_refused(fields: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput, match="must be a number above 0"):
        LinearBuckets(*fields)
    with pytest.raises(InvalidInput, match="must be a number above 0"):
        ExponentialBuckets(*fields)
    with pytest.raises(InvalidInput, match="growth is 1"):
        ExponentialBuckets(1.0, 10.0, 1.0)


@pytest.mark.parametrize("fields", [(0.0, 1e-4), (math.nan, 1e-4), (3600.0, 0.0), (3600.0, -1.0)])
def test_a_half_life_and_an_epsilon_are_above_nothing(fields: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput, match="must be above 0"):
        HistogramMatrix(CPU_MILLI, *fields)
