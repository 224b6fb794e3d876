"""An operator's own trace: CSV with a header, one row per pod and moment, plain or gzip (docs/how-to/backtest.md).

    time,pod,workload,cpu_milli,cpu_limit_milli,memory_bytes,memory_limit_bytes

`time` is seconds since 1970 or ISO 8601 (UTC if it names no zone); `workload` may be left out: every pod is then its
own; of the amounts only those of the resource that is judged are needed. The order of columns and rows is free.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import numpy as np

from slackwater.model.errors import InvalidInput
from slackwater.traces.grid import Samples, grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.files import first_line, matching, one_file_of, opened
from slackwater.traces.trace import Trace

_COLUMNS = {
    TraceResource.CPU: ("cpu_milli", "cpu_limit_milli"),
    TraceResource.MEMORY: ("memory_bytes", "memory_limit_bytes"),
}

_LATEST = 253_402_300_800
"""The year 10000: what is later counts milliseconds, or smaller ones."""
_MOST = 2**47
"""No pod has 128 TiB, nor as many milli-cores: the unit is another one, and sums over a node would not fit anywhere."""
FILES = "a .csv(.gz) with the header time,pod,workload,cpu_milli,cpu_limit_milli,memory_bytes,memory_limit_bytes"


def recognises(path: Path) -> bool:
    files = matching(path, "*.csv", "*.csv.gz")
    return len(files) == 1 and {"time", "pod"} <= set(first_line(files[0]).split(","))


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput that names the line."""
    file = one_file_of(path, "*.csv*")
    used_column, limit_column = _COLUMNS[resource]
    numbers: dict[str, int] = {}
    workloads: dict[str, str] = {}
    series, seconds, used, limit = array("q"), array("q"), array("d"), array("d")
    for place, row in _rows(file, ("time", "pod", used_column, limit_column)):
        pod = row["pod"]
        if not pod:
            raise InvalidInput(f"{file}, line {place}: pod is empty")
        series.append(numbers.setdefault(pod, len(numbers)))
        workloads.setdefault(pod, row.get("workload") or pod)
        seconds.append(_seconds(file, place, row["time"]))
        used.append(_amount(file, place, row, used_column))
        limit.append(_amount(file, place, row, limit_column))
    samples = Samples(
        np.frombuffer(series, np.int64).astype(np.intp, copy=False),
        np.frombuffer(seconds, np.int64),
        np.frombuffer(used, np.float64),
        np.frombuffer(limit, np.float64),
    )
    return grid(samples, list(numbers), [workloads[pod] for pod in numbers], title=file.name, resource=resource)


def _rows(file: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, str]]]:
    with opened(file) as text:
        reader = csv.DictReader(text, restval="")
        missing = [name for name in needed if name not in (reader.fieldnames or ())]
        if missing:
            there = ", ".join(reader.fieldnames or ()) or "nothing"
            raise InvalidInput(f"{file}: no column {', '.join(missing)}; the first line has {there}")
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error as error:
            raise InvalidInput(f"{file}, line {reader.line_num}: is not CSV: {error}") from error


def _seconds(file: Path, place: int, text: str) -> int:
    try:
        found = int(float(text))
    except (ValueError, OverflowError):
        pass
    else:
        if abs(found) < _LATEST:
            return found
        raise InvalidInput(
            f"{file}, line {place}: time {text!r} is beyond the year 9999; wanted are seconds since 1970, or ISO 8601"
        )
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{file}, line {place}: time {text!r} is neither seconds nor ISO 8601") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def _amount(file: Path, place: int, row: Mapping[str, str], column: str) -> float:
    """An empty field is a sample that was not taken."""
    text = row[column]
    try:
        found = float(text) if text else float("nan")
    except ValueError:
        raise InvalidInput(f"{file}, line {place}: {column} {text!r} is not a number") from None
    if _MOST < found < inf:
        unit = "bytes" if "bytes" in column else "milli-cores"
        raise InvalidInput(f"{file}, line {place}: {column} {text!r} is more than any pod has; wanted are {unit}")
    return found
