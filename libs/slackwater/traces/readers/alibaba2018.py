"""machine_usage of Alibaba's cluster-trace-v2018: per cent of CPU and memory of each whole machine.

No header: machine, seconds since the trace's own zero, CPU %, memory %, and more that is not read; plain or gzip.
Values outside 0..100 are the trace's way to say that a sample was bad. All machines have 96 cores; their memory was
not published and counts as 512 GiB.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from slackwater.model.errors import InvalidInput
from slackwater.traces.grid import Samples, grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.files import one_file_of, opened
from slackwater.traces.trace import Trace

_COLUMNS = {TraceResource.CPU: (2, 96_000.0), TraceResource.MEMORY: (3, 512.0 * 2**30)}


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput."""
    column, capacity = _COLUMNS[resource]
    file = one_file_of(path, "machine_usage*.csv*")
    numbers: dict[str, int] = {}
    series, seconds, shares = [], [], []
    with opened(file) as text:
        for place, row in enumerate(csv.reader(text), 1):
            try:
                at, percent = int(float(row[1])), float(row[column] or "nan")
            except (IndexError, ValueError, OverflowError):
                raise InvalidInput(
                    f"{file}, line {place}: wanted are machine, seconds, CPU %, memory %, not {','.join(row)[:80]!r}"
                ) from None
            series.append(numbers.setdefault(row[0], len(numbers)))
            seconds.append(at)
            shares.append(percent / 100 if 0 <= percent <= 100 else np.nan)
    samples = Samples(
        np.array(series, np.intp),
        np.array(seconds, np.int64),
        np.array(shares, np.float64) * capacity,
        np.full(len(series), capacity),
    )
    names = list(numbers)
    return grid(samples, names, names, title=file.name, resource=resource, whole_machines=True)
