"""Decaying histograms of many series in one matrix: one row per series, one column per bucket.

A sample at time t weighs 2^((t - reference) / half-life) instead of everything older losing weight: adding touches
one cell per series. Only when a sample is more than 100 half-lives past a row's reference, that row is scaled by a
power of two, which loses no bits. Percentiles are ends of buckets (error: see `buckets`).

Memory: 8 bytes per bucket and series (1.3 KB CPU, 1.6 KB memory).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.buckets import Buckets, Floats, Rows

EPSILON = 1e-4
"""Buckets below this weight do not widen the range in which a percentile is looked for."""

_SHIFT_AFTER_HALF_LIVES = 100
_FIRST_ROWS = 64
_AT_ONCE = 2048
"""Rows whose percentiles are looked for together: few enough to stay in the processor's cache."""


class HistogramMatrix:
    """`weights[row, bucket]` relative to `reference[row]` (seconds since 1970); `totals` all weight ever added.

    An endless half-life forgets nothing. Raises InvalidInput for a half-life or epsilon that is not above 0.
    """

    def __init__(self, buckets: Buckets, half_life_seconds: float, epsilon: float = EPSILON) -> None:
        for name, value in (("half_life_seconds", half_life_seconds), ("epsilon", epsilon)):
            if not value > 0:
                raise InvalidInput(f"histogram: {name} is {value}, but must be above 0", field=name)
        self.buckets = buckets
        self.half_life_seconds = half_life_seconds
        self.epsilon = epsilon
        self.weights: Floats = np.zeros((0, buckets.count))
        self.totals: Floats = np.zeros(0)
        self.reference: Floats = np.zeros(0)

    def ensure_rows(self, count: int) -> None:
        """Grow by doubling, so that adding series one by one stays cheap."""
        have = len(self.totals)
        if count <= have:
            return
        more = max(count, 2 * have, _FIRST_ROWS) - have
        self.weights = np.vstack([self.weights, np.zeros((more, self.buckets.count))])
        self.totals = np.concatenate([self.totals, np.zeros(more)])
        self.reference = np.concatenate([self.reference, np.zeros(more)])

    def clear(self, row: int) -> None:
        """Forget everything of a row."""
        self.weights[row] = 0.0
        self.totals[row] = 0.0
        self.reference[row] = 0.0

    def add(self, rows: Rows, values: Floats, at_seconds: Floats, weights: Floats | float = 1.0) -> None:
        """Add one sample per entry of `rows`; the same row may occur several times."""
        self._shift(rows, at_seconds)
        decayed = weights * np.exp2((at_seconds - self.reference[rows]) / self.half_life_seconds)
        cells = rows * self.buckets.count + self.buckets.find(values)
        np.add.at(self.weights.reshape(-1), cells, decayed)  # flat is seven times as fast as by pairs of indices
        np.add.at(self.totals, rows, decayed)

    def subtract(self, rows: Rows, values: Floats, at_seconds: Floats, weights: Floats | float = 1.0) -> None:
        """Take back what was added with the same arguments; what is left of it below epsilon becomes nothing."""
        self._shift(rows, at_seconds)
        decayed = weights * np.exp2((at_seconds - self.reference[rows]) / self.half_life_seconds)
        cells = (rows, self.buckets.find(values))
        np.subtract.at(self.weights, cells, decayed)
        np.subtract.at(self.totals, rows, decayed)
        self.weights[cells] = np.where(self.weights[cells] < self.epsilon, 0.0, self.weights[cells])
        self.totals[rows] = np.where(self.totals[rows] < self.epsilon, 0.0, self.totals[rows])

    def merge(self, row: int, other: HistogramMatrix, other_row: int) -> None:
        """Add a history to a row, as if its samples had been added here. Raises InvalidInput for another layout."""
        if (self.buckets, self.half_life_seconds) != (other.buckets, other.half_life_seconds):
            raise InvalidInput("histogram: only those with the same buckets and half-life merge", field="buckets")
        weights, total, reference = other.weights[other_row], other.totals[other_row], other.reference[other_row]
        if reference > self.reference[row]:
            self._rebase(np.array([row]), np.array([reference]))
        half_lives = (reference - self.reference[row]) / self.half_life_seconds
        self.weights[row] += _moved(weights, half_lives)
        self.totals[row] += _moved(total, half_lives)

    def _shift(self, rows: Rows, at_seconds: Floats) -> None:
        """Move the reference of rows whose sample would weigh more than 2^100: exact, as powers of two."""
        far = at_seconds > self.reference[rows] + _SHIFT_AFTER_HALF_LIVES * self.half_life_seconds
        if not far.any():
            return
        latest = np.full(len(self.reference), -np.inf)
        np.maximum.at(latest, rows[far], at_seconds[far])
        moved = np.flatnonzero(latest > -np.inf)
        reference = np.floor(latest[moved] / self.half_life_seconds + 0.5)
        self._rebase(moved, reference * self.half_life_seconds)

    def _rebase(self, rows: Rows, reference: Floats) -> None:
        """Express the weights of these rows, each named once, relative to other references."""
        half_lives = (self.reference[rows] - reference) / self.half_life_seconds
        self.reference[rows] = reference
        holds = self.totals[rows] > 0  # most rows that move are new ones
        rows, half_lives = rows[holds], half_lives[holds]
        self.weights[rows] = _moved(self.weights[rows], half_lives[:, None])
        self.totals[rows] = _moved(self.totals[rows], half_lives)

    def is_empty(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether no bucket of a row holds as much as epsilon."""
        heaviest: Floats = self.weights[rows].max(axis=1)
        return heaviest < self.epsilon

    def percentile(self, rows: Rows, share: float) -> Floats:
        """The end of the bucket at which `share` (0..1) of each row's weight is reached; 0 for empty rows."""
        parts = [self._percentile(rows[first : first + _AT_ONCE], share) for first in range(0, len(rows), _AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _percentile(self, rows: Rows, share: float) -> Floats:
        weights = self.weights[rows]
        present = weights >= self.epsilon
        first = present.argmax(axis=1)
        last = self.buckets.count - 1 - present[:, ::-1].argmax(axis=1)
        columns = np.arange(self.buckets.count)
        weights[columns[None, :] < first[:, None]] = 0.0
        reached = np.cumsum(weights, axis=1) >= (share * self.totals[rows])[:, None]
        bucket = np.where(reached.any(axis=1), reached.argmax(axis=1), self.buckets.count)
        bucket = np.clip(bucket, first, last)
        ends = self.buckets.starts[np.minimum(bucket + 1, self.buckets.count - 1)]
        return np.where(present.any(axis=1), ends, 0.0)

    def absorb(self, other: HistogramMatrix) -> None:
        """`merge` of every row with the row of the same number. Raises InvalidInput for another layout."""
        if (self.buckets, self.half_life_seconds) != (other.buckets, other.half_life_seconds):
            raise InvalidInput("histogram: only those with the same buckets and half-life merge", field="buckets")
        used = np.arange(len(other.totals))
        self.ensure_rows(len(used))
        self._rebase(used, np.maximum(self.reference[used], other.reference))
        half_lives = (other.reference - self.reference[used]) / self.half_life_seconds
        self.weights[used] += _moved(other.weights, half_lives[:, None])
        self.totals[used] += _moved(other.totals, half_lives)


def _moved(weights: Floats, half_lives: Floats) -> Floats:
    """Weights relative to a reference so many half-lives back; exact for whole ones, which all of our own are."""
    whole = np.rint(half_lives)
    moved: Floats = np.ldexp(weights * np.exp2(half_lives - whole), whole.astype(np.int64))
    return moved
