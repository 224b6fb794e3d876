"""Converts rows of a file to a grid. Handles gaps, duplicates, late rows, zero limits and usage above the limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.traces.options import TraceResource
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS, Amounts, Repairs, Rows, Trace

LONGEST_GAP_CELLS = DAY_CELLS
"""A gap of up to a day is filled with the previous value; in a longer gap the series is absent."""
MOST_CELLS = 400_000_000
"""Limit of cells: 3.6 GB in two float32 grids and a mask. A larger grid is almost always a wrong unit of time."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows of a file by columns, in any order; amounts in milli-cores or bytes."""

    series: Rows
    """(rows,) number of the series, an index into the names."""
    seconds: NDArray[np.int64]
    usage: NDArray[np.float64] | Amounts
    limit: NDArray[np.float64] | Amounts
    weight: NDArray[np.float64] | None = None
    """(rows,) how many rows of the file each row is the mean of; None: one each."""
    repairs: Repairs = field(default_factory=Repairs)
    """What was counted before these rows: rows that are unusable, over the limit, or merged into another."""


def grid(
    samples: Samples,
    names: Sequence[str],
    workload_of: Sequence[str],
    *,
    title: str,
    resource: TraceResource,
    whole_machines: bool = False,
) -> Trace:
    """A trace with every row in the cell of its time; the order of rows is irrelevant.

    Raises InvalidInput when nothing usable is left, or when the span of times cannot be a trace.
    """
    usable = np.isfinite(samples.usage) & np.isfinite(samples.limit) & (samples.usage >= 0) & (samples.limit > 0)
    before = samples.repairs
    repairs = Repairs(
        rows=len(usable) + before.rows,
        unusable=int(np.count_nonzero(~usable)) + before.unusable,
        doubled=before.doubled,
    )
    if not usable.any():
        raise InvalidInput(f"{title}: no usable row among {len(usable)}; a row needs a usage >= 0 and a limit > 0")
    series, cell = samples.series[usable], samples.seconds[usable] // CELL_SECONDS
    used, limit = samples.usage[usable], samples.limit[usable]
    weight = None if samples.weight is None else samples.weight[usable]
    repairs = replace(repairs, over_limit=int(np.count_nonzero(used > limit)) + before.over_limit)
    first = int(cell.min())
    cells = int(cell.max()) - first + 1
    if cells * len(names) > MOST_CELLS:
        raise InvalidInput(
            f"{title}: {len(names)} series over {cells / DAY_CELLS:,.0f} days are too much to hold; "
            "times must be seconds since 1970"
        )
    shape = (cells, len(names))
    place = np.ravel_multi_index((cell - first, series), shape)
    rows = np.bincount(place, weights=weight, minlength=cells * len(names)).reshape(shape)
    usages, limits = (_means(place, values, rows, weight) for values in (np.minimum(used, limit), limit))
    known = rows > 0
    repairs = replace(repairs, doubled=repairs.doubled + len(series) - int(np.count_nonzero(known)))
    filled = fill_gaps(known, usages, limits)
    kept = known.any(axis=0)
    repairs = replace(repairs, filled=filled, empty_series=int(np.count_nonzero(~kept)))
    left = [int(place) for place in np.flatnonzero(kept)]
    number = {key: n for n, key in enumerate(sorted({workload_of[i] for i in left}))}
    whole = bool(kept.all())
    return Trace(
        title=title,
        resource=resource,
        start_seconds=first * CELL_SECONDS,
        names=[names[i] for i in left],
        workload=np.array([number[workload_of[i]] for i in left], dtype=np.intp),
        usage=usages if whole else usages[:, kept],
        limit=limits if whole else limits[:, kept],
        present=known if whole else known[:, kept],
        whole_machines=whole_machines,
        repairs=repairs,
        workloads=list(number),
    )


def _means(
    place: Rows, values: NDArray[np.floating[Any]], rows: NDArray[Any], weight: NDArray[np.float64] | None
) -> Amounts:
    """The mean of the rows of each cell; 0 where there is none."""
    weights = values if weight is None else values * weight
    sums = np.bincount(place, weights=weights, minlength=rows.size).reshape(rows.shape)
    found: Amounts = (sums / np.maximum(rows, 1)).astype(np.float32)
    return found


def fill_gaps(known: NDArray[np.bool_], usages: Amounts, limits: Amounts, longest: int = LONGEST_GAP_CELLS) -> int:
    """Fill each gap of at most `longest` cells with the cell before it, in place; absent cells become 0.

    Column by column, so that no second grid is needed. Returns how many cells were filled.
    """
    filled = 0
    places = np.arange(len(known))
    for column in range(known.shape[1]):
        there = np.flatnonzero(known[:, column])
        if len(there) == len(places):
            continue
        gaps = np.diff(there) - 1
        source = np.full(len(places), -1, np.intp)
        source[there] = there
        for gap in np.flatnonzero((gaps > 0) & (gaps <= longest)):
            source[there[gap] + 1 : there[gap + 1]] = there[gap]
        present = source >= 0
        filled += int(np.count_nonzero(present)) - len(there)
        usages[:, column] = np.where(present, usages[source, column], 0)
        limits[:, column] = np.where(present, limits[source, column], 0)
        known[:, column] = present
    return filled
