"""Decaying histograms of many series in one matrix: one row per series, one column per bucket.

A sample at time t weighs 2^((t - reference) / half-life), so adding a sample touches one cell and older weights need no
update. If a sample is more than 100 half-lives past a row's reference, the row is scaled by a power of two, which loses
no bits. Percentiles are ends of buckets (error: see `buckets`).

Memory: 8 bytes per column and series. There are as many columns as the largest value of any series needs: on machines
of 64 cores and 256 GiB 0.8 and 1.3 KB per series.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.peaks.buckets import Buckets, Floats, Rows

EPSILON = 1e-4
"""Buckets below this weight do not widen the range that is searched for a percentile."""

_SHIFT_AFTER_HALF_LIVES = 100
_FIRST_ROWS = 64
_COLUMNS = 32
"""Columns are added by so many."""
_AT_ONCE = 2048
"""Rows per percentile batch: few enough to stay in the processor's cache."""


class HistogramMatrix:
    """`weights[row, bucket]` relative to `reference[row]` (seconds since 1970); `totals` is the sum of all added
    weight. Buckets beyond the columns are empty.

    An infinite half-life never decays. Raises InvalidInput for a half-life or epsilon that is not above 0.
    """

    def __init__(self, buckets: Buckets, half_life_seconds: float, epsilon: float = EPSILON) -> None:
        for name, value in (("half_life_seconds", half_life_seconds), ("epsilon", epsilon)):
            if not value > 0:
                raise InvalidInput(f"histogram: {name} is {value}; it must be above 0", field=name)
        self.buckets = buckets
        self.half_life_seconds = half_life_seconds
        self.epsilon = epsilon
        self.weights: Floats = np.zeros((0, min(_COLUMNS, buckets.count)))
        self.totals: Floats = np.zeros(0)
        self.reference: Floats = np.zeros(0)

    def ensure_rows(self, count: int) -> None:
        """Grows to at least `count` rows by doubling, so that adding single series stays cheap."""
        have = len(self.totals)
        if count <= have:
            return
        more = max(count, 2 * have, _FIRST_ROWS) - have
        self.weights = np.vstack([self.weights, np.zeros((more, self.weights.shape[1]))])
        self.totals = np.concatenate([self.totals, np.zeros(more)])
        self.reference = np.concatenate([self.reference, np.zeros(more)])

    def ensure_columns(self, count: int) -> None:
        """Grows to at least `count` columns; no layout has more than `buckets.count`."""
        have = self.weights.shape[1]
        if count > have:
            wide = min(self.buckets.count, -(-count // _COLUMNS) * _COLUMNS)
            self.weights = np.hstack([self.weights, np.zeros((len(self.weights), wide - have))])

    def _found(self, values: Floats) -> Rows:
        """The bucket of each value, each of which has a column."""
        found = self.buckets.find(values)
        self.ensure_columns(int(found.max(initial=-1)) + 1)
        return found

    def clear(self, row: int) -> None:
        """Deletes all samples of a row."""
        self.weights[row] = 0.0
        self.totals[row] = 0.0
        self.reference[row] = 0.0

    def add(self, rows: Rows, values: Floats, at_seconds: Floats, weights: Floats | float = 1.0) -> None:
        """Adds one sample per entry of `rows`; a row may occur several times."""
        self._shift(rows, at_seconds)
        decayed = weights * np.exp2((at_seconds - self.reference[rows]) / self.half_life_seconds)
        places = self._found(values)
        cells = rows * self.weights.shape[1] + places
        np.add.at(self.weights.reshape(-1), cells, decayed)  # the flat index is seven times as fast as pairs of indices
        np.add.at(self.totals, rows, decayed)

    def subtract(self, rows: Rows, values: Floats, at_seconds: Floats, weights: Floats | float = 1.0) -> None:
        """Subtracts samples that were added with the same arguments; results below epsilon become 0."""
        self._shift(rows, at_seconds)
        decayed = weights * np.exp2((at_seconds - self.reference[rows]) / self.half_life_seconds)
        cells = (rows, self._found(values))
        np.subtract.at(self.weights, cells, decayed)
        np.subtract.at(self.totals, rows, decayed)
        self.weights[cells] = np.where(self.weights[cells] < self.epsilon, 0.0, self.weights[cells])
        self.totals[rows] = np.where(self.totals[rows] < self.epsilon, 0.0, self.totals[rows])

    def merge(self, row: int, other: HistogramMatrix, other_row: int) -> None:
        """Adds another histogram's row, as if its samples had been added here. Raises InvalidInput for another
        layout.
        """
        if (self.buckets, self.half_life_seconds) != (other.buckets, other.half_life_seconds):
            raise InvalidInput(
                "histogram: only histograms with equal buckets and half-life can be merged", field="buckets"
            )
        weights, total, reference = other.weights[other_row], other.totals[other_row], other.reference[other_row]
        if reference > self.reference[row]:
            self._rebase(np.array([row]), np.array([reference]))
        half_lives = (reference - self.reference[row]) / self.half_life_seconds
        self.ensure_columns(len(weights))
        self.weights[row, : len(weights)] += _moved(weights, half_lives)
        self.totals[row] += _moved(total, half_lives)

    def _shift(self, rows: Rows, at_seconds: Floats) -> None:
        """Moves the reference of rows whose sample would weigh more than 2^100. Exact, because scaling is by powers of
        two.
        """
        far = at_seconds > self.reference[rows] + _SHIFT_AFTER_HALF_LIVES * self.half_life_seconds
        if not far.any():
            return
        latest = np.full(len(self.reference), -np.inf)
        np.maximum.at(latest, rows[far], at_seconds[far])
        moved = np.flatnonzero(latest > -np.inf)
        reference = np.floor(latest[moved] / self.half_life_seconds + 0.5)
        self._rebase(moved, reference * self.half_life_seconds)

    def _rebase(self, rows: Rows, reference: Floats) -> None:
        """Scales the weights of these rows, each given once, to new references."""
        half_lives = (self.reference[rows] - reference) / self.half_life_seconds
        self.reference[rows] = reference
        holds = self.totals[rows] > 0  # most moved rows are new and empty
        rows, half_lives = rows[holds], half_lives[holds]
        self.weights[rows] = _moved(self.weights[rows], half_lives[:, None])
        self.totals[rows] = _moved(self.totals[rows], half_lives)

    def is_empty(self, rows: Rows) -> NDArray[np.bool_]:
        """Returns whether every bucket of a row is below epsilon."""
        heaviest: Floats = self.weights[rows].max(axis=1)
        return heaviest < self.epsilon

    def percentile(self, rows: Rows, share: float) -> Floats:
        """Returns the end of the bucket in which each row reaches `share` (0..1) of its weight; 0 for empty rows."""
        parts = [self._percentile(rows[first : first + _AT_ONCE], share) for first in range(0, len(rows), _AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _percentile(self, rows: Rows, share: float) -> Floats:
        weights = self.weights[rows]
        present = weights >= self.epsilon
        first = present.argmax(axis=1)
        columns = np.arange(self.weights.shape[1])
        last = len(columns) - 1 - present[:, ::-1].argmax(axis=1)
        weights[columns[None, :] < first[:, None]] = 0.0
        reached = np.cumsum(weights, axis=1) >= (share * self.totals[rows])[:, None]
        bucket = np.where(reached.any(axis=1), reached.argmax(axis=1), len(columns))
        bucket = np.clip(bucket, first, last)
        ends = self.buckets.starts[np.minimum(bucket + 1, self.buckets.count - 1)]
        return np.where(present.any(axis=1), ends, 0.0)

    def absorb(self, other: HistogramMatrix) -> None:
        """Merges every row with the row of the same number. Raises InvalidInput for another layout."""
        if (self.buckets, self.half_life_seconds) != (other.buckets, other.half_life_seconds):
            raise InvalidInput(
                "histogram: only histograms with equal buckets and half-life can be merged", field="buckets"
            )
        used = np.arange(len(other.totals))
        self.ensure_rows(len(used))
        self.ensure_columns(other.weights.shape[1])
        self._rebase(used, np.maximum(self.reference[used], other.reference))
        half_lives = (other.reference - self.reference[used]) / self.half_life_seconds
        self.weights[used, : other.weights.shape[1]] += _moved(other.weights, half_lives[:, None])
        self.totals[used] += _moved(other.totals, half_lives)


def _moved(weights: Floats, half_lives: Floats) -> Floats:
    """Scales weights by half-lives. Exact for whole half-lives, and all internal references are whole ones."""
    whole = np.rint(half_lives)
    moved: Floats = np.ldexp(weights * np.exp2(half_lives - whole), whole.astype(np.int64))
    return moved
