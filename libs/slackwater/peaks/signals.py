"""Periods of regular series: autocorrelation, spectrum, and the prediction of the next period. The last axis is time.

A period is proven by two conditions together, as in crane's predictor:

    spectrum          |X_k| of the series without its mean exceeds the level that noise of the same variance reaches in
                      one of a hundred series; N / k is a candidate for k >= 2, that is, it occurred at least twice
    autocorrelation   rises before that lag and falls after it, and is the highest of all candidates

Noise has no order, and its |X_k|^2 / (N variance) is exponentially distributed. The bound is computed, where crane
takes the 99th of a hundred random shuffles, so that equal series always have equal periods.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.intp]

_CHANCE = 0.01
"""Probability that noise appears to have a period."""
_AMPLIFIED = math.log(1.25)
"""Predicting a fifth too little counts as much as predicting twice the value."""
_NEAR_ZERO = 1e-3


def autocorrelation(series: Floats) -> Floats:
    """(..., n) circular, by lag: 1 at lag 0; all 0 for a constant series."""
    deviations = series - series.mean(axis=-1, keepdims=True)
    length = series.shape[-1]
    power = np.abs(np.fft.rfft(deviations, axis=-1)) ** 2
    products = np.fft.irfft(power, n=length, axis=-1)
    whole = products[..., :1]
    varies = whole > _dust(series)
    return np.divide(products, whole, out=np.zeros_like(products), where=varies)


def noise_bound(series: Floats) -> Floats:
    """(..., n) -> (...,): the |X_k| that noise of this variance exceeds in one of a hundred series."""
    length = series.shape[-1]
    lines = max((length - 1) // 2, 1)
    share = -math.log(-math.expm1(math.log1p(-_CHANCE) / lines))
    return np.asarray(np.sqrt(length * series.var(axis=-1) * share))


def slope(values: Floats) -> Floats:
    """(..., n) -> (...,): slope of the linear least-squares fit."""
    places = np.arange(values.shape[-1]) - (values.shape[-1] - 1) / 2
    return np.asarray(values @ places / max(float(places @ places), 1.0))


def is_peak(series: Floats, place: int, around: int) -> Bools:
    """(..., n) -> (...,): whether the fit over the `around` steps before rises, and the one after falls."""
    if around < 1 or place - around < 0 or place + around >= series.shape[-1]:
        return np.zeros(series.shape[:-1], dtype=bool)
    before, behind = series[..., place - around : place + 1], series[..., place : place + around + 1]
    tolerance = 1e-12 * np.abs(series).max(axis=-1)
    return np.asarray((slope(before) > tolerance) & (slope(behind) < -tolerance))


def proven(series: Floats, period: int, around: int) -> tuple[Bools, Floats]:
    """(..., n) -> (...,) whether `period` (in samples) is a period of each series, and the autocorrelation there.

    For a period of which n is not a multiple, the nearest line of the spectrum is used.
    """
    length = series.shape[-1]
    line = round(length / period)
    if line < 2:
        return np.zeros(series.shape[:-1], dtype=bool), np.zeros(series.shape[:-1])
    deviations = series - series.mean(axis=-1, keepdims=True)
    strength = np.abs(np.fft.rfft(deviations, axis=-1))[..., line]
    correlation = autocorrelation(series)
    stands_out = (strength > noise_bound(series)) & (correlation[..., 0] > 0)
    return stands_out & is_peak(correlation, period, around), correlation[..., period]


def find_period(series: Floats, most_around: int) -> int | None:
    """Returns the period of one series in samples, or None. `most_around`: maximum number of steps over which a peak
    must rise and fall.
    """
    length = series.shape[-1]
    deviations = series - series.mean()
    strengths, bound = np.abs(np.fft.rfft(deviations)), float(noise_bound(series))
    correlation = autocorrelation(series)
    if not correlation[0]:
        return None
    candidates = dict.fromkeys(length // line for line in range(2, (length + 1) // 2) if strengths[line] > bound)
    peaks = [lag for lag in candidates if is_peak(correlation, lag, min(most_around, lag // 2))]
    return max(peaks, key=lambda lag: float(correlation[lag]), default=None)


def by_phase(series: Floats, period: int) -> Floats:
    """(..., n) -> (..., periods, period): the last whole periods."""
    whole = series.shape[-1] // period
    periods = series[..., series.shape[-1] - whole * period :]
    return periods.reshape(*series.shape[:-1], whole, period)


def largest_by_phase(series: Floats, period: int) -> Floats:
    """(..., n) -> (..., period): the largest of each phase over all whole periods."""
    return np.asarray(by_phase(series, period).max(axis=-2))


def filtered(
    series: Floats,
    period: int,
    *,
    interval_seconds: float,
    fewest: int = 3,
    most: int = 100,
    high_frequency: float = 1 / 3600,
    low_amplitude: float = 1.0,
) -> Floats:
    """(..., n) -> (..., period): the last period without the lines that are both weak and fast.

    Weak is an amplitude below `low_amplitude`, or below that of the `most` strongest lines if that is larger; the
    `fewest` strongest are always kept. Fast is a frequency above `high_frequency` in Hz. The result is never below 0.
    """
    length = series.shape[-1]
    spectrum = np.fft.rfft(series, axis=-1)
    amplitude = np.abs(spectrum) * 2 / length
    between = np.sort(amplitude[..., 1 : (length + 1) // 2], axis=-1)[..., ::-1]
    if not between.shape[-1]:
        return np.maximum(series[..., -period:], 0.0)
    lines = between.shape[-1]
    cut = np.maximum(between[..., min(most, lines) - 1], low_amplitude)
    cut = np.minimum(cut, between[..., min(fewest, lines) - 1])
    frequency = np.arange(spectrum.shape[-1]) / (length * interval_seconds)
    dropped = (amplitude < cut[..., None]) & (frequency > high_frequency * (1 + 1e-12))
    smooth = np.fft.irfft(np.where(dropped, 0.0, spectrum), n=length, axis=-1)
    return np.maximum(smooth[..., -period:], 0.0)


def prediction_error(actual: Floats, predicted: Floats) -> Floats:
    """(..., n) -> (...,): mean relative error, with underestimates amplified; the absolute error if an actual is near
    0.
    """
    under = predicted < actual
    near_zero = (actual < _NEAR_ZERO).any(axis=-1)
    safe = np.maximum(actual, _NEAR_ZERO)
    relative = np.abs(predicted - actual) / safe
    lost = np.clip(np.where(under, relative, 0.0), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        amplified = -np.log1p(-lost) / _AMPLIFIED
    mean = np.where(under, amplified, relative).mean(axis=-1)
    return np.asarray(np.where(near_zero, np.abs(predicted - actual).mean(axis=-1), mean))


def _dust(series: Floats) -> Floats:
    """Returns the rounding residue of a constant series."""
    scale = np.abs(series).max(axis=-1, keepdims=True)
    return np.asarray(series.shape[-1] * (1e-12 * scale) ** 2)
