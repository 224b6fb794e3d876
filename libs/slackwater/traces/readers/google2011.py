"""Machines of Google's clusterdata-2011-2 as parquet: usage of each whole machine every five minutes.

The trace gives amounts as shares of the largest machine and, beside them, per cent of the machine's own capacity; the
capacity follows from both. The largest machine counts as 32 cores with 128 GiB: its real size was not published.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.traces.grid import Samples, grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.files import matching, one_file_of
from slackwater.traces.readers.parquet import columns, whole_numbers
from slackwater.traces.readers.series_ids import numbered
from slackwater.traces.trace import Trace

TRACE_ZERO_SECONDS = 1_304_290_200
"""The trace counts from 600 s before 2011-05-01 19:00 in US Eastern time."""
_COLUMNS = {TraceResource.CPU: ("cpu", "cpu_pct", 32_000.0), TraceResource.MEMORY: ("mem", "mem_pct", 128.0 * 2**30)}
FILES = "usage_5min*.parquet (machine, ts_us, cpu, cpu_pct, mem, mem_pct)"


def recognises(path: Path) -> bool:
    return bool(matching(path, "usage_5min*.parquet"))


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput, Misconfigured."""
    used, percent, largest = _COLUMNS[resource]
    file = one_file_of(path, "usage_5min*.parquet")
    rows = columns(file, ("machine", "ts_us", used, percent))
    names, series = numbered(whole_numbers(rows["machine"], file, "machine"))
    machines = [f"machine-{name}" for name in names]
    capacity = capacities(series, rows[used], rows[percent], len(machines))
    if not np.isfinite(capacity).any():
        raise InvalidInput(f"{file}: no capacity follows from {used} and {percent}: both are 0 everywhere")
    samples = Samples(
        series,
        whole_numbers(rows["ts_us"], file, "ts_us") // 1_000_000 + TRACE_ZERO_SECONDS,
        rows[used].astype(np.float64) * largest,
        capacity[series] * largest,
    )
    return grid(samples, machines, machines, title=file.name, resource=resource, whole_machines=True)


def capacities(
    series: NDArray[np.intp], used: NDArray[np.float32], percent: NDArray[np.float32], count: int
) -> NDArray[np.float64]:
    """(count,) by the sums over all rows; NaN for a machine that never used anything."""
    sound = np.isfinite(used) & np.isfinite(percent) & (percent > 0)
    amounts = np.bincount(series[sound], weights=used[sound], minlength=count)
    shares = np.bincount(series[sound], weights=percent[sound], minlength=count) / 100
    found = np.full(count, np.nan)
    np.divide(amounts, shares, out=found, where=shares > 0)
    return found
