"""Mean and standard deviation of many series over the last hours, accurate for streams of any length.

Each block of time keeps count, mean and sum of squared distances from that mean (Welford's update). Blocks are combined
pairwise (Chan, Golub, LeVeque). Nothing is subtracted from a running total: a block that leaves the window is no longer
added, so errors do not accumulate and large squares do not cancel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.peaks.port import Floats, Rows
from slackwater.peaks.tables import SeriesColumn, SeriesRing, State

_COLUMNS = {
    "count": SeriesColumn(np.float64, blocked=True),
    "mean": SeriesColumn(np.float64, blocked=True),
    "squares": SeriesColumn(np.float64, blocked=True),
}


class Moments:
    """The window is the current block and the `blocks - 1` before it. 24 bytes per block and series."""

    def __init__(self, blocks: int, block_seconds: float) -> None:
        self.ring = SeriesRing(_COLUMNS, blocks, block_seconds)

    def fold(self, at_seconds: float, rows: Rows, values: Floats) -> None:
        """Folds one value for each of `rows`, which are distinct; samples older than the window are ignored."""
        ring = self.ring
        ring.reach(rows)
        block = ring.block_of(at_seconds)
        if not ring.turn(block):
            return
        line = ring.line(block)
        count, mean, squares = (ring[name][line] for name in _COLUMNS)
        more, before = count[rows] + 1.0, mean[rows]
        after = before + (values - before) / more
        count[rows] = more
        mean[rows] = after
        squares[rows] += (values - before) * (values - after)

    def over(self, rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Returns count, mean and standard deviation (of the population) of each series; all 0 without samples."""
        self.ring.see(rows)
        whole = (np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows)))
        for block in self.ring.blocks():
            line = self.ring.line(block)
            count = self.ring["count"][line][rows]
            if count.any():
                whole = _together(whole, (count, self.ring["mean"][line][rows], self.ring["squares"][line][rows]))
        count, mean, squares = whole
        return count, mean, np.sqrt(squares / np.maximum(count, 1.0))

    def merge(self, other: Moments) -> None:
        """Adds the samples of another instance for the same series, as if they had been folded here."""
        for mine, theirs in self.ring.meet(other.ring):
            ours = (self.ring["count"], self.ring["mean"], self.ring["squares"])
            used = slice(0, other.ring.used)
            seen = tuple(other.ring[name][theirs, used] for name in _COLUMNS)
            merged = _together(tuple(array[mine, used] for array in ours), seen)
            for array, values in zip(ours, merged, strict=True):
                array[mine, used] = values

    def forget(self, rows: Rows) -> None:
        self.ring.forget(rows)

    def state(self) -> State:
        return self.ring.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.ring.restore(state)


def _together(first: tuple[Floats, ...], second: tuple[Floats, ...]) -> tuple[Floats, Floats, Floats]:
    """Combines count, mean and squares of two samples; an empty sample has no effect."""
    (n, mean, squares), (m, other, more) = first, second
    whole = n + m
    share = np.divide(m, whole, out=np.zeros(whole.shape), where=whole > 0)
    apart = other - mean
    return whole, mean + apart * share, squares + more + apart * apart * n * share
