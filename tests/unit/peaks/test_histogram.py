"""Decaying histograms: layout, decay, percentiles, and the batched form against the readable one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_histogram import ReferenceHistogram

from slackwater.model.bounds import MOST_SUM_CPU_MILLI, MOST_SUM_MEMORY_BYTES
from slackwater.peaks.buckets import CPU_MILLI, MEMORY_BYTES, ExponentialBuckets
from slackwater.peaks.decaying_histograms import DecayingOptions, Known
from slackwater.peaks.histogram import EPSILON, HistogramMatrix

HALF_LIFE = 3600.0
START = 1_700_000_000.0


def matrix(rows: int, buckets: ExponentialBuckets = CPU_MILLI) -> HistogramMatrix:
    made = HistogramMatrix(buckets, HALF_LIFE)
    made.ensure_rows(rows)
    return made


def one(values: list[float], at: list[float]) -> HistogramMatrix:
    made = matrix(1)
    for value, seconds in zip(values, at, strict=True):
        made.add(np.array([0]), np.array([value]), np.array([seconds]))
    return made


def read(histogram: HistogramMatrix, share: float, row: int = 0) -> float:
    return float(histogram.percentile(np.array([row]), share)[0])


def test_the_layouts_cover_the_most_that_pods_of_a_machine_use_together() -> None:
    assert CPU_MILLI.starts[-1] >= MOST_SUM_CPU_MILLI
    assert MEMORY_BYTES.starts[-1] >= MOST_SUM_MEMORY_BYTES
    assert CPU_MILLI.starts[1] == pytest.approx(25.0)
    assert MEMORY_BYTES.starts[204] == pytest.approx(2203922208858.5283)


@given(st.floats(0, 1_000_000))
def test_a_constant_series_reads_at_least_itself_and_at_most_one_bucket_more(value: float) -> None:
    got = read(one([value] * 3, [START] * 3), 0.95)
    assert value <= got * (1 + 1e-12)
    assert got <= value * 1.05 + CPU_MILLI.first + 1e-6


def test_an_empty_row_reads_zero() -> None:
    assert read(matrix(1), 0.95) == 0.0


def test_after_one_half_life_a_new_sample_outweighs_an_old_one() -> None:
    histogram = one([4000.0, 1000.0], [START, START + HALF_LIFE])
    assert read(histogram, 0.6) < 1100
    assert read(histogram, 0.7) > 4000


def test_what_is_hundreds_of_half_lives_old_is_forgotten() -> None:
    assert read(one([16_000.0, 500.0], [START, START + 500 * HALF_LIFE]), 1.0) < 600


@given(st.lists(st.tuples(st.floats(0, 2e6), st.floats(0, 400 * HALF_LIFE)), max_size=30), st.floats(0, 1))
def test_the_batched_form_equals_the_readable_one(samples: list[tuple[float, float]], share: float) -> None:
    histogram = one([value for value, _ in samples], [START + after for _, after in samples])
    histogram.ensure_columns(CPU_MILLI.count)
    reference = ReferenceHistogram(CPU_MILLI, HALF_LIFE, EPSILON)
    for value, after in samples:
        reference.add(int(CPU_MILLI.find(np.array([value]))[0]), START + after)
    np.testing.assert_allclose(histogram.weights[0], reference.weights, rtol=1e-12)
    assert histogram.totals[0] == pytest.approx(reference.total, rel=1e-12)
    # a threshold that is hit exactly may fall on either side by the last bit of the exponent
    around = {reference.percentile(max(0.0, min(1.0, share + nudge))) for nudge in (-1e-9, 0.0, 1e-9)}
    assert read(histogram, share) in around


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1e5), st.floats(0, 10 * HALF_LIFE)), max_size=40))
def test_adding_in_one_batch_equals_adding_one_by_one(samples: list[tuple[int, float, float]]) -> None:
    batch, single = matrix(5), matrix(5)
    rows = np.array([row for row, _, _ in samples], dtype=np.intp)
    values = np.array([value for _, value, _ in samples], dtype=np.float64)
    at = np.array([START + after for _, _, after in samples], dtype=np.float64)
    batch.add(rows, values, at)
    for row, value, seconds in zip(rows, values, at, strict=True):
        single.add(np.array([row]), np.array([value]), np.array([seconds]))
    every = np.arange(5)
    shift = np.exp2((single.reference - batch.reference) / HALF_LIFE)
    np.testing.assert_allclose(batch.totals, single.totals * shift, rtol=1e-9)
    for share in (0.5, 0.95, 1.0):
        np.testing.assert_allclose(batch.percentile(every, share), single.percentile(every, share), rtol=1e-9)


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_percentile_is_never_lower(values: list[float], a: float, b: float) -> None:
    histogram = one(values, [START] * len(values))
    assert read(histogram, min(a, b)) <= read(histogram, max(a, b))


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=20), st.integers(-1000, 1000))
def test_shifting_all_times_by_half_lives_changes_nothing(values: list[float], half_lives: int) -> None:
    at = [START + 60.0 * n for n in range(len(values))]
    moved = [seconds + half_lives * HALF_LIFE for seconds in at]
    assert read(one(values, at), 0.95) == read(one(values, moved), 0.95)


@pytest.mark.parametrize(
    ("buckets", "most"), [(CPU_MILLI, MOST_SUM_CPU_MILLI), (MEMORY_BYTES, MOST_SUM_MEMORY_BYTES)], ids=["cpu", "memory"]
)
@given(share=st.floats(0, 1), weight=st.floats(0.01, 1))
def test_no_percentile_is_below_the_value_however_large(
    buckets: ExponentialBuckets, most: int, share: float, weight: float
) -> None:
    """A pod that used 10 TiB read as 2.2 TB, the last bucket, and so did a machine of more than 1,060 cores."""
    value = share * most
    histogram = HistogramMatrix(buckets, HALF_LIFE)
    histogram.ensure_rows(2)
    histogram.add(np.array([1]), np.array([value]), np.array([START]), weight)
    (peak,) = histogram.percentile(np.array([1]), 0.98)
    assert value <= peak <= value * 1.05 + 2 * buckets.first
    assert histogram.percentile(np.array([0]), 0.98).tolist() == [0.0]


def test_a_matrix_has_the_columns_that_its_largest_value_needs() -> None:
    small, large = one([16_000.0], [START]), one([16_000.0, 5e6], [START, START])
    assert small.weights.shape[1] <= 96 < large.weights.shape[1] < CPU_MILLI.count
    small.absorb(large)
    assert read(small, 0.6) < 16_900
    assert read(small, 1.0) >= 5e6


LARGE = {
    "a pod of 10 TiB": (MEMORY_BYTES, [10 * 2**40]),
    "a machine of 1,920 cores beside idle ones": (CPU_MILLI, [1_920_000, 0, 40]),
    "the pods of a machine of 24 TiB": (MEMORY_BYTES, [24 * 2**40, 2**30]),
    "a start, after which it idles for a month": (CPU_MILLI, [1_200_000, *[10.0] * 5]),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_values_outlive_snapshots_merges_and_idle_times(name: str) -> None:
    buckets, values = LARGE[name]
    known = Known(buckets, DecayingOptions(percentile=1.0, half_life_seconds=HALF_LIFE))
    for hour, value in enumerate(values):
        known.fold(START + hour * HALF_LIFE, np.array([0]), np.array([float(value)]))
    again = Known(buckets, known.options)
    again.restore(known.state())
    other = Known(buckets, known.options)
    other.fold(START, np.array([0]), np.array([1.0]))
    other.matrix.absorb(again.matrix)
    for matrix_after in (known.matrix, again.matrix, other.matrix):
        peak = read(matrix_after, 1.0)
        assert max(values) <= peak <= max(values) * 1.05 + 2 * buckets.first


@pytest.mark.parametrize("value", [25.0 * 21, 1_060_000.0, 1_060_001.0, 2.0**40 / 1024])
def test_a_value_on_the_edge_of_a_bucket_reads_at_least_itself(value: float) -> None:
    for edge in (value, float(CPU_MILLI.starts[np.searchsorted(CPU_MILLI.starts, value) - 1])):
        assert read(one([edge], [START]), 1.0) >= edge * (1 - 1e-12)
