"""The perfect forecast: the actual peak, in the next 24 hours, of the workloads that are on a machine now.

A workload that leaves counts until it leaves. A workload that arrives later does not count.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slackwater.traces.placement import Stays
from slackwater.traces.trace import DAY_CELLS, Amounts

Floats = NDArray[np.float64]


def oracle(usage: Amounts, stays: Stays, horizon: int = DAY_CELLS) -> Floats:
    """Returns (cells, machines) the peak over the `horizon` cells after each cell; NaN in the last `horizon` cells.

    Between two arrivals the set of workloads on a machine only shrinks, and a workload that has left adds 0.
    Therefore one sum and one sliding maximum per arrival are enough.
    """
    cells = len(usage)
    peaks = np.full((cells, stays.machines), np.nan)
    order = np.argsort(stays.machine, kind="stable")
    bounds = np.searchsorted(stays.machine[order], np.arange(stays.machines + 1))
    for machine in range(stays.machines):
        here = order[bounds[machine] : bounds[machine + 1]]
        peaks[: cells - horizon, machine] = _of_machine(usage, stays, here, horizon)
    return peaks


def _of_machine(usage: Amounts, stays: Stays, here: NDArray[np.intp], horizon: int) -> Floats:
    cells = len(usage)
    peaks = np.zeros(max(0, cells - horizon))
    arrivals = np.unique(stays.begin[here])
    for since, until in pairwise([*arrivals, cells]):
        if since >= len(peaks):
            break
        there = here[(stays.begin[here] <= since) & (stays.end[here] > since)]
        stop = min(cells, until + horizon)
        block = usage[since + 1 : stop, stays.series[there]].astype(np.float64)
        for column, end in enumerate(stays.end[there]):
            block[end - since - 1 :, column] = 0
        asked = min(until, len(peaks)) - since
        peaks[since : since + asked] = sliding_maximum(block.sum(axis=1), horizon)[:asked]
    return peaks


def sliding_maximum(values: Floats, width: int) -> Floats:
    """Returns the maximum of each `width` consecutive values, by doubling in log2(width) passes."""
    if len(values) < width:
        return np.empty(0)
    reached, spread = values, 1
    while spread * 2 <= width:
        reached = np.maximum(reached[:-spread], reached[spread:])
        spread *= 2
    rest = width - spread
    return np.maximum(reached[: len(reached) - rest], reached[rest:]) if rest else reached
