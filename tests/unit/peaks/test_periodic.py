"""The model `periodic` and its signals: a period that is there is proven, noise and constants have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from slackwater.peaks.periodic import DAY_HOURS, WEEK_HOURS, Periodic, PeriodicOptions
from slackwater.peaks.port import Floats, Members
from slackwater.peaks.signals import (
    autocorrelation,
    filtered,
    find_period,
    is_peak,
    largest_by_phase,
    noise_bound,
    prediction_error,
    proven,
)

HOUR = 3600.0
LIMIT = 1000.0
ONE = np.zeros(1, dtype=np.intp)


def members(count: int = 1) -> Members:
    rows = np.arange(count, dtype=np.intp)
    return Members(np.zeros(count, dtype=np.intp), rows, rows, np.full(count, LIMIT), np.array([1e9]))


def fed(series: Floats, **options: Any) -> tuple[Periodic, float]:
    """A model that saw one value an hour of each workload (hours, workloads), and the time of the last one."""
    model = Periodic(PeriodicOptions(**{"margin": 0.0, **options}))
    for hour, values in enumerate(series, start=1):
        model.fold(hour * HOUR, members(series.shape[1]), values)
    return model, len(series) * HOUR


def days(count: int, phase: int = 0) -> Floats:
    """Low but for eight hours of a day that rise to 800 and fall again."""
    day = np.full(DAY_HOURS, 100.0)
    day[8:16] = [200, 400, 600, 800, 700, 500, 300, 200]
    return np.tile(np.roll(day, phase), count)


def test_autocorrelation_is_that_of_the_definition() -> None:
    series = np.array([1.0, 2, 3, 4])
    by_hand = [1.0, -0.2, -0.6, -0.2]  # deviations -1.5, -0.5, 0.5, 1.5; the sum of squares is 5
    assert autocorrelation(series) == pytest.approx(by_hand)
    assert not autocorrelation(np.full(10, 0.1)).any()


@given(hnp.arrays(np.float64, st.integers(2, 60), elements=st.floats(0, 1e6)))
@settings(max_examples=50, deadline=None)
def test_autocorrelation_lies_between_minus_one_and_one(series: Floats) -> None:
    found = autocorrelation(series)
    assert np.abs(found).max() <= 1 + 1e-9
    mean = series - series.mean()
    if found[0]:
        slow = [float(mean @ np.roll(mean, lag)) / float(mean @ mean) for lag in range(len(series))]
        assert found == pytest.approx(slow, abs=1e-6)


def test_a_peak_rises_before_and_falls_behind() -> None:
    series = np.array([0.0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0])
    assert [bool(is_peak(series, 5, around)) for around in (0, 1, 5, 6)] == [False, True, True, False]
    assert not is_peak(series, 4, 2)


def test_noise_reaches_its_bound_in_about_one_of_a_hundred_series() -> None:
    noise = np.random.default_rng(5).normal(size=(2000, 336))
    strongest = np.abs(np.fft.rfft(noise - noise.mean(axis=-1, keepdims=True)))[:, 1:168].max(axis=-1)
    assert 0.002 < float((strongest > noise_bound(noise)).mean()) < 0.03


def test_find_period() -> None:
    day = 10 + 4 * np.sin(2 * np.pi * np.arange(3 * 1440) / 1440)
    assert find_period(day, 240) == 1440
    assert find_period(np.full(500, 3.0), 240) is None
    assert find_period(np.random.default_rng(2).random(4320), 240) in (None, *range(2, 1440))


def test_a_period_needs_two_of_it() -> None:
    once = days(1)
    assert not proven(once, DAY_HOURS, 4)[0]
    is_one, correlation = proven(np.stack([days(4), np.full(96, 5.0)]), DAY_HOURS, 4)
    assert is_one.tolist() == [True, False]
    assert correlation[0] == pytest.approx(1.0)


def test_by_phase_the_last_whole_periods_count() -> None:
    assert largest_by_phase(np.array([9.0, 1, 2, 3, 1]), 2).tolist() == [3, 2]


def test_weak_fast_lines_are_left_out() -> None:
    place = np.arange(288)
    level = 10 + 4 * np.sin(2 * np.pi * place / 96)
    noisy = level + 0.5 * np.sin(2 * np.pi * place / 4)
    kept = filtered(noisy, 96, interval_seconds=900, fewest=1, high_frequency=1e-5)
    assert kept == pytest.approx(level[-96:])
    assert filtered(noisy, 96, interval_seconds=900, fewest=1, low_amplitude=0.4, high_frequency=1e-5) == pytest.approx(
        noisy[-96:]
    )


def test_too_little_costs_more_than_too_much() -> None:
    assert prediction_error(np.array([10.0, 10]), np.array([12.0, 8])) == pytest.approx(0.6)  # (0.2 + 1) / 2
    assert prediction_error(np.array([0.0, 2]), np.array([1.0, 1])) == 1  # absolute beside a zero
    assert prediction_error(np.array([1.0]), np.array([0.0])) == np.inf


# ---- the model


def test_pods_that_peak_at_different_hours_need_less_than_their_peaks_together() -> None:
    """By day and by night: 800 + 100, not 1,600."""
    model, now = fed(np.stack([days(4), days(4, 12)], axis=1))
    answer = model.peaks(now, members(2))
    assert model.periods(np.arange(2)).tolist() == [DAY_HOURS, DAY_HOURS]
    assert answer.peak[0] == pytest.approx(900, rel=1e-3)
    assert answer.inputs["periodic_share"][0] == 1


def test_without_a_proven_period_the_largest_hour_counts_and_it_says_so() -> None:
    noise = np.random.default_rng(3).uniform(1, 500, size=(96, 1))
    model, now = fed(np.concatenate([noise, days(4)[:, None]], axis=1))
    answer = model.peaks(now, members(2))
    assert model.periods(np.arange(2)).tolist() == [0, DAY_HOURS]
    assert answer.terms["no_proven_period"][0] == pytest.approx(noise.max(), rel=1e-3)
    assert answer.terms["periodic"][0] == pytest.approx(800, rel=1e-3)
    assert answer.inputs["periodic_share"][0] == 0.5


def test_one_day_proves_nothing() -> None:
    model, now = fed(days(1)[:, None])
    assert model.periods(ONE).tolist() == [0]
    assert model.peaks(now, members()).terms["periodic"][0] == 0


def test_a_series_above_its_pattern_has_none_at_the_moment() -> None:
    model, now = fed(days(4)[:, None], margin=0.1)
    assert model.peaks(now, members()).terms["periodic"][0] > 0
    model.fold(now, members(), np.array([950.0]))
    answer = model.peaks(now, members())
    assert answer.terms["periodic"][0] == 0
    assert answer.terms["no_proven_period"][0] == pytest.approx(950, rel=1e-3)


def test_a_week_is_proven_by_two_and_looks_a_day_ahead() -> None:
    """Busy on the third day of each week: the day after the sixth is quiet, the day before the third is not."""
    quiet = np.full(WEEK_HOURS, 50.0)
    quiet[48:72] = 400 + 100 * np.sin(np.pi * np.arange(24) / 24)
    weeks = np.tile(quiet, 3)[:, None]
    model, now = fed(weeks[: 2 * WEEK_HOURS + 24])
    assert model.periods(ONE).tolist() == [WEEK_HOURS]
    assert model.peaks(now, members()).peak[0] == pytest.approx(50, rel=1e-2)
    model, now = fed(weeks[: 2 * WEEK_HOURS + 48])
    assert model.peaks(now, members()).peak[0] >= 400


def test_margin_and_limit() -> None:
    model, now = fed(days(4)[:, None], margin=0.1)
    assert model.peaks(now, members()).peak[0] == pytest.approx(880, rel=1e-3)
    model, now = fed(days(4)[:, None], margin=0.5)
    assert model.peaks(now, members()).peak[0] == LIMIT


@pytest.mark.parametrize("estimator", ["max", "fft", "best"])
def test_estimators_agree_on_what_repeats_exactly(estimator: str) -> None:
    model, now = fed(days(6)[:, None], estimator=estimator)
    assert model.peaks(now, members()).peak[0] == pytest.approx(800, rel=0.05)


def test_best_takes_what_predicted_the_last_day_better() -> None:
    """A spike two days ago that did not come back: by the largest of each hour it stays, smoothed it does not."""
    series = days(7)
    series[4 * DAY_HOURS + 3] = 950.0
    by_max, now = fed(series[:, None], estimator="max", correlation=0.1)
    best, _ = fed(series[:, None], estimator="best", correlation=0.1)
    assert by_max.peaks(now, members()).peak[0] == pytest.approx(950, rel=1e-3)
    assert best.peaks(now, members()).peak[0] < 850
