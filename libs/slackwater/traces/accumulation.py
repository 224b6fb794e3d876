"""Collects the rows of a large file in bounded memory: rows of one series and cell are merged to their mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.traces.grid import Samples
from slackwater.traces.trace import CELL_SECONDS, Repairs, Rows

MOST_PENDING = 4_000_000
"""Rows that are held before they are merged: 160 MB."""
_CELLS = 2**33
"""More cells than any time has; series and cell make one key."""


@dataclass(slots=True)
class SampleAccumulator:
    """`add` takes batches in any order, `samples` returns all of them. `most_pending`: see MOST_PENDING."""

    most_pending: int = MOST_PENDING
    _parts: list[Samples] = field(default_factory=list)
    _pending: int = 0

    def add(
        self,
        series: Rows,
        seconds: NDArray[np.int64],
        usage: NDArray[np.floating[Any]],
        limit: NDArray[np.floating[Any]],
    ) -> None:
        """Add rows: (rows,) each, as in `Samples`."""
        self._parts.append(Samples(series, seconds, usage, limit))
        self._pending += len(series)
        if self._pending > self.most_pending:
            self._parts = [merged(_joined(self._parts))]
            self._pending = 0

    def samples(self) -> Samples:
        """All rows; those of merged batches have a weight."""
        return _joined(self._parts)


def _joined(parts: list[Samples]) -> Samples:
    if not parts:
        nothing = np.empty(0)
        return Samples(np.empty(0, np.intp), np.empty(0, np.int64), nothing, nothing)
    weighted = any(part.weight is not None for part in parts)
    counts = [part.repairs for part in parts]
    return Samples(
        np.concatenate([part.series for part in parts]),
        np.concatenate([part.seconds for part in parts]),
        np.concatenate([part.usage for part in parts]),
        np.concatenate([part.limit for part in parts]),
        np.concatenate([_weight(part) for part in parts]) if weighted else None,
        Repairs(
            rows=sum(count.rows for count in counts),
            unusable=sum(count.unusable for count in counts),
            doubled=sum(count.doubled for count in counts),
            over_limit=sum(count.over_limit for count in counts),
        ),
    )


def _weight(part: Samples) -> NDArray[np.float64]:
    return np.ones(len(part.series)) if part.weight is None else part.weight


def merged(samples: Samples) -> Samples:
    """One row per series and cell: the weighted mean of its usable rows, usage bounded by the limit as in `grid`."""
    usable = np.isfinite(samples.usage) & np.isfinite(samples.limit) & (samples.usage >= 0) & (samples.limit > 0)
    series, cell = samples.series[usable], samples.seconds[usable] // CELL_SECONDS
    used, limit = (values[usable].astype(np.float64) for values in (samples.usage, samples.limit))
    weight = _weight(samples)[usable]
    key = series.astype(np.int64) * _CELLS + cell
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else np.empty(0, np.intp)
    before = samples.repairs

    def sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.add.reduceat(values[order], first) if len(first) else values

    total = sums(weight)
    return Samples(
        series[order][first],
        cell[order][first] * CELL_SECONDS,
        sums(np.minimum(used, limit) * weight) / total,
        sums(limit * weight) / total,
        total,
        Repairs(
            rows=before.rows + len(usable) - len(first),
            unusable=before.unusable + int(np.count_nonzero(~usable)),
            doubled=before.doubled + len(key) - len(first),
            over_limit=before.over_limit + int(np.count_nonzero(used > limit)),
        ),
    )
