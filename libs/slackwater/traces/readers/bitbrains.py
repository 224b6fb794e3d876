"""GWA-T-12 Bitbrains "rnd" as parquet: one row per VM and five minutes, provisioned and used CPU and memory.

A file is a month; of a folder all files rnd_*.parquet are read, one after the other in time. MHz count as milli-cores
(a core of 1 GHz), KB as 1024 bytes; what is provisioned is the limit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slackwater.traces.grid import Samples, grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.files import files_of
from slackwater.traces.readers.parquet import columns, whole_numbers
from slackwater.traces.readers.series_ids import numbered
from slackwater.traces.trace import Trace

_COLUMNS = {
    TraceResource.CPU: ("cpu_used_mhz", "cpu_cap_mhz", 1.0),
    TraceResource.MEMORY: ("mem_used_kb", "mem_cap_kb", 1024.0),
}


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput, Misconfigured."""
    used, limit, unit = _COLUMNS[resource]
    files = files_of(path, "rnd_*.parquet")
    parts = [columns(file, ("vm", "ts", used, limit)) for file in files]
    names, series = numbered(
        np.concatenate([whole_numbers(part["vm"], file, "vm") for part, file in zip(parts, files, strict=True)])
    )
    vms = [f"vm-{name}" for name in names]
    seconds = [whole_numbers(part["ts"], file, "ts") for part, file in zip(parts, files, strict=True)]
    samples = Samples(
        series,
        np.concatenate(seconds),
        np.concatenate([part[used] for part in parts]) * np.float32(unit),
        np.concatenate([part[limit] for part in parts]) * np.float32(unit),
    )
    return grid(samples, vms, vms, title=path.name, resource=resource)
