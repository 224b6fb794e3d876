"""machine_usage of Alibaba's cluster-trace-v2018: per cent of CPU and memory of each whole machine.

As published (machine_usage.csv, .csv.gz or .tar.gz, no header). Percentages outside 0..100 mark bad samples. All
machines have 96 cores; their memory was not published and counts as 512 GiB.
Schema: cluster-trace-v2018/schema.md of github.com/alibaba/clusterdata.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.traces.accumulation import SampleAccumulator
from slackwater.traces.grid import grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.delimited import FileColumns, SeriesNumbers, batches
from slackwater.traces.readers.files import matching, one_of, required
from slackwater.traces.trace import Trace

MACHINE_MILLI, MACHINE_BYTES = 96_000.0, 512.0 * 2**30
LAYOUT = FileColumns(("machine", "seconds", "CPU %", "memory %"), frozenset(("machine",)))
FILES = "machine_usage*.csv(.gz) or machine_usage.tar.gz (machine, seconds, CPU %, memory %, …)"
_PATTERNS = ("machine_usage*.csv", "machine_usage*.csv.gz", "machine_usage*.tar.gz")
_COLUMNS = {TraceResource.CPU: ("CPU %", MACHINE_MILLI), TraceResource.MEMORY: ("memory %", MACHINE_BYTES)}


def recognises(path: Path) -> bool:
    return bool(matching(path, *_PATTERNS))


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput, Misconfigured."""
    column, capacity = _COLUMNS[resource]
    file = one_of(required(path, FILES, *_PATTERNS))
    rows, numbers = SampleAccumulator(), SeriesNumbers()
    for batch in batches(file, LAYOUT, ("machine", "seconds", column)):
        names = batch.names["machine"]
        shares = shares_of(batch.numbers[column])
        at = batch.whole("seconds")
        rows.add(numbers.of(names.values, names.codes), at, shares * capacity, np.full(len(shares), capacity))
    machines = list(numbers.numbers)
    return grid(rows.samples(), machines, machines, title=file.name, resource=resource, whole_machines=True)


def shares_of(percents: NDArray[Any]) -> NDArray[np.float64]:
    """0..1; NaN for what is outside of 0..100."""
    sound = (percents >= 0) & (percents <= 100)
    return np.where(sound, percents / 100, np.nan)
