"""What a perfect forecast would have said: the highest that the set on a machine now came to in the next 24 hours.

Of those who leave, only the time until they leave counts; whoever comes later does not count at all.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slackwater.traces.placement import Stays
from slackwater.traces.trace import DAY_CELLS, Amounts

Floats = NDArray[np.float64]


def oracle(usage: Amounts, stays: Stays, horizon: int = DAY_CELLS) -> Floats:
    """(cells, machines): the peak over the `horizon` cells after each; NaN in the last `horizon` cells.

    Between two arrivals on a machine its set only shrinks, and who has left adds nothing: one sum and one sliding
    maximum per arrival are enough.
    """
    cells = len(usage)
    found = np.full((cells, stays.machines), np.nan)
    order = np.argsort(stays.machine, kind="stable")
    bounds = np.searchsorted(stays.machine[order], np.arange(stays.machines + 1))
    for machine in range(stays.machines):
        here = order[bounds[machine] : bounds[machine + 1]]
        found[: cells - horizon, machine] = _of_machine(usage, stays, here, horizon)
    return found


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
    """The maximum of each `width` values in a row, by doubling: log2(width) passes over the values."""
    if len(values) < width:
        return np.empty(0)
    reached, spread = values, 1
    while spread * 2 <= width:
        reached = np.maximum(reached[:-spread], reached[spread:])
        spread *= 2
    rest = width - spread
    return np.maximum(reached[: len(reached) - rest], reached[rest:]) if rest else reached
