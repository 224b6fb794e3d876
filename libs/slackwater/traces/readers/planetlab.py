"""PlanetLab CPU traces of CloudSim: a folder per day (20110303) with a file per VM, one whole per cent per line.

A file is named by its host and slice, and may be in several days. A line is five minutes, a day has 288 of them. The
size of VMs was not published: each counts as one core of 1,000 milli-cores. Memory was not recorded. Days follow by the
folder's name; a lone folder without a date begins at 0.
Source: modules/cloudsim-examples/src/main/resources/workload/planetlab of https://github.com/Cloudslab/cloudsim.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from slackwater.model.errors import InvalidInput
from slackwater.traces.accumulation import SampleAccumulator
from slackwater.traces.grid import grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.files import first_line, opened
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS, Trace

FILES = "day folders (20110303) of files with 288 lines, one whole per cent each"
RESOURCES = (TraceResource.CPU,)
_DAY = re.compile(r"\d{8}")
_PERCENT = re.compile(r"\d{1,3}")
_CORE_MILLI = 1000.0


def recognises(path: Path) -> bool:
    if not path.is_dir():
        return False
    return any(files and _PERCENT.fullmatch(first_line(files[0])) is not None for files in _days(path).values())


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput."""
    if resource is not TraceResource.CPU:
        raise InvalidInput("--resource: PlanetLab traces have no memory; expected cpu", field="resource")
    if not path.exists():
        raise InvalidInput(f"--trace: {path} does not exist", field="trace")
    if not path.is_dir():
        raise InvalidInput(f"--trace: expected {FILES}; {path} is no folder", field="trace")
    days = {day: files for day, files in _days(path).items() if files}
    if not days:
        raise InvalidInput(f"--trace: expected {FILES} in {path}; found nothing", field="trace")
    rows, numbers = SampleAccumulator(), dict[str, int]()
    for day, files in days.items():
        begin = _begin(day)
        for file in files:
            used = np.array(_percents(file), np.float64) / 100 * _CORE_MILLI
            host = numbers.setdefault(file.name, len(numbers))
            at = begin + np.arange(len(used), dtype=np.int64) * CELL_SECONDS
            rows.add(np.full(len(used), host), at, used, np.full(len(used), _CORE_MILLI))
    names = list(numbers)
    return grid(rows.samples(), names, names, title=path.name, resource=resource)


def _days(path: Path) -> dict[Path, list[Path]]:
    """The files of the folder, or of each folder in it that is named by a day."""
    folders = sorted(one for one in path.iterdir() if one.is_dir() and _DAY.fullmatch(one.name))
    return {folder: _hosts(folder) for folder in folders or [path]}


def _hosts(folder: Path) -> list[Path]:
    """The files of a day, without hidden ones that desktops leave in folders."""
    return sorted(one for one in folder.iterdir() if one.is_file() and not one.name.startswith("."))


def _begin(folder: Path) -> int:
    try:
        return int(datetime.strptime(folder.name, "%Y%m%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        return 0


def _percents(file: Path) -> list[int]:
    found = []
    with opened(file) as text:
        for place, line in enumerate(text, 1):
            word = line.strip()
            if _PERCENT.fullmatch(word) is None:
                raise InvalidInput(f"{file}, line {place}: expected a whole per cent; found {word[:80]!r}")
            found.append(int(word))
    if len(found) > DAY_CELLS:
        raise InvalidInput(f"{file}: expected at most {DAY_CELLS} lines, one per five minutes; found {len(found)}")
    return found
