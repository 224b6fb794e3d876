"""GWA-T-12 Bitbrains (fastStorage, rnd): one row per VM and five minutes, provisioned and used CPU and memory.

As published: folders of `N.csv`, one per VM, also in folders by month (rnd/2013-7). Or re-encoded as parquet: a file
is a month, of a folder all files rnd_*.parquet are read. MHz count as milli-cores (a core of 1 GHz), KB as 1024 bytes;
what is provisioned is the limit. The header says [ms], but times are seconds since 1970.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slackwater.model.errors import InvalidInput
from slackwater.traces.accumulation import SampleAccumulator
from slackwater.traces.grid import Samples, grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.delimited import FileColumns, SeriesNumbers, batches
from slackwater.traces.readers.files import files_of, first_line, matching, required
from slackwater.traces.readers.parquet import columns, whole_numbers
from slackwater.traces.readers.series_ids import numbered
from slackwater.traces.trace import Trace

_COLUMNS = {
    TraceResource.CPU: ("cpu_used_mhz", "cpu_cap_mhz", 1.0),
    TraceResource.MEMORY: ("mem_used_kb", "mem_cap_kb", 1024.0),
}
_CSV_COLUMNS = {
    TraceResource.CPU: ("CPU usage [MHZ]", "CPU capacity provisioned [MHZ]", 1.0),
    TraceResource.MEMORY: ("Memory usage [KB]", "Memory capacity provisioned [KB]", 1024.0),
}
_TIME = "Timestamp [ms]"
LAYOUT = FileColumns(
    columns=(
        _TIME,
        "CPU cores",
        "CPU capacity provisioned [MHZ]",
        "CPU usage [MHZ]",
        "CPU usage [%]",
        "Memory capacity provisioned [KB]",
        "Memory usage [KB]",
    ),
    delimiter=";",
    header=True,
)
FILES = "folders of N.csv (Timestamp [ms]; CPU cores; …), or rnd_*.parquet"
_PUBLISHED = ("[0-9].csv", "[0-9]*[0-9].csv")


def recognises(path: Path) -> bool:
    if matching(path, "rnd_*.parquet", "fixture_*.parquet"):
        return True
    return any(first_line(file).startswith(_TIME + ";") for file in matching(path, *_PUBLISHED, path.name)[:1])


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput, Misconfigured."""
    if matching(path, "*.parquet"):
        return _read_parquet(path, resource)
    return _read_published(path, resource)


def _read_published(path: Path, resource: TraceResource) -> Trace:
    used, limit, unit = _CSV_COLUMNS[resource]
    rows, numbers = SampleAccumulator(), SeriesNumbers()
    for file in required(path, FILES, *_PUBLISHED):
        titles = [title.strip() for title in first_line(file).split(";")]
        if tuple(titles[: len(LAYOUT.columns)]) != LAYOUT.columns:
            raise InvalidInput(f"{file}, line 1: expected {LAYOUT.description}; found {first_line(file)[:80]!r}")
        vm = numbers.of([f"vm-{file.stem}"], np.zeros(1, np.intp))[0]
        for batch in batches(file, LAYOUT, (_TIME, used, limit)):
            at = batch.whole(_TIME)
            rows.add(np.full(len(at), vm), at, batch.numbers[used] * unit, batch.numbers[limit] * unit)
    names = list(numbers.numbers)
    return grid(rows.samples(), names, names, title=path.name, resource=resource)


def _read_parquet(path: Path, resource: TraceResource) -> Trace:
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
