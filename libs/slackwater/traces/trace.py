"""A trace in memory: usage and limit of many series on one grid of five minutes, for one resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slackwater.traces.options import TraceResource

CELL_SECONDS = 300
DAY_CELLS = 86_400 // CELL_SECONDS

Amounts = NDArray[np.float32]
"""Single precision: seven digits are more than any trace has, and a month of 500 machines stays below 50 MB."""
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Repairs:
    """Counts of defects in the file that were repaired or dropped; shown with every result."""

    rows: int = 0
    """Rows read."""
    unusable: int = 0
    """Rows left out: not a number, negative, or of a limit of 0."""
    doubled: int = 0
    """Rows that share a five-minute cell with another row of the series; the cell is their mean."""
    over_limit: int = 0
    """Rows with usage above the limit, which are clipped to the limit."""
    filled: int = 0
    """Cells without a row, filled with the previous value."""
    empty_series: int = 0
    """Series left out because they have no usable row."""


@dataclass(frozen=True, slots=True)
class Trace:
    """`usage` and `limit` are (cells, series) and 0 where a series is not `present`; usage never exceeds the limit."""

    title: str
    resource: TraceResource
    start_seconds: int
    """When the first cell begins, seconds since 1970 (or since the trace's own zero); a multiple of CELL_SECONDS."""
    names: Sequence[str]
    workload: Rows
    """(series,) the number of the workload each belongs to, from 0."""
    usage: Amounts
    limit: Amounts
    present: NDArray[np.bool_]
    whole_machines: bool
    """Each series is a whole machine, and nothing is known of its pods."""
    repairs: Repairs
    workloads: Sequence[str] = ()
    """The names of the workloads, by number; empty: not known."""

    @property
    def cells(self) -> int:
        return int(self.usage.shape[0])

    @property
    def series(self) -> int:
        return int(self.usage.shape[1])

    @property
    def days(self) -> float:
        return self.cells / DAY_CELLS

    def end_of(self, cell: int) -> float:
        """When a cell ends, seconds: from then on its usage is known."""
        return float(self.start_seconds + (cell + 1) * CELL_SECONDS)

    def cell_at(self, seconds: float) -> int:
        """The cell in which this time falls; outside of the trace, where it would be."""
        return int(seconds - self.start_seconds) // CELL_SECONDS
