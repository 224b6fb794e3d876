"""Google's ClusterData 2019 as exported from BigQuery: instance_usage and instance_events of one cell.

JSON, one object per line, or CSV with a header and the nested fields as columns (`average_usage.cpus` or
`average_usage_cpus`); plain or .gz. Amounts are shares of the largest machine, which counts as 64 cores with 256 GiB:
its real size was not published. Usage is the average over the (mostly five-minute) interval, the limit is the last
resource request. The workload is the collection. Times are microseconds from 600 s before 2019-05-01 00:00 in US
Pacific time. Whole numbers may be strings, as BigQuery writes them; a missing field is left out of the object.
Schema: "Google cluster-usage traces v3", github.com/google/cluster-data.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec import DecodeError, Struct, ValidationError, convert
from msgspec.json import Decoder

from slackwater.model.errors import InvalidInput
from slackwater.traces.accumulation import SampleAccumulator
from slackwater.traces.grid import grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.files import matching, opened, required
from slackwater.traces.trace import Trace

FILES = "instance_usage*.json or .csv (.gz), with instance_events* beside it"
TRACE_ZERO_SECONDS = 1_556_694_000 - 600
LARGEST = {TraceResource.CPU: 64_000.0, TraceResource.MEMORY: 256.0 * 2**30}
_ENDS = (".json", ".json.gz", ".csv", ".csv.gz")
_USAGE = tuple(f"instance_usage*{end}" for end in _ENDS)
_EVENTS = tuple(f"instance_events*{end}" for end in _ENDS)
_BATCH_ROWS = 200_000
_MICROS = 1_000_000
Instance = tuple[int, int]
Row = TypeVar("Row", bound=Struct)


class BorgAmounts(Struct):
    """Shares of the largest machine."""

    cpus: float | None = None
    memory: float | None = None

    def of(self, resource: TraceResource) -> float | None:
        return self.cpus if resource is TraceResource.CPU else self.memory


class InstanceUsage(Struct):
    """A row of instance_usage; other fields are not read."""

    start_time: int
    collection_id: int
    instance_index: int
    average_usage: BorgAmounts | None = None


class InstanceEvent(Struct):
    """A row of instance_events; other fields are not read."""

    collection_id: int
    instance_index: int
    resource_request: BorgAmounts | None = None


def recognises(path: Path) -> bool:
    return bool(matching(path, *_USAGE))


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput."""
    files = required(path, FILES, *_USAGE)
    requests = _requests(files[0], resource)
    rows, numbers = SampleAccumulator(), dict[Instance, int]()
    for file in files:
        _add(file, resource, requests, numbers, rows)
    names = [f"{collection}-{index}" for collection, index in numbers]
    workloads = [str(collection) for collection, _ in numbers]
    return grid(rows.samples(), names, workloads, title=path.name, resource=resource)


def _add(
    file: Path,
    resource: TraceResource,
    requests: Mapping[Instance, float],
    numbers: dict[Instance, int],
    rows: SampleAccumulator,
) -> None:
    """Add the rows of a file in batches. A row of an instance without a request has a limit of 0 and is unusable."""
    series, seconds, used, limits = list[int](), list[int](), list[float](), list[float]()

    def flush() -> None:
        rows.add(
            np.array(series, np.intp),
            np.array(seconds, np.int64) + TRACE_ZERO_SECONDS,
            np.array(used, np.float64) * LARGEST[resource],
            np.array(limits, np.float64) * LARGEST[resource],
        )
        for column in (series, seconds, used, limits):
            column.clear()

    for usage in _objects(file, InstanceUsage):
        instance = (usage.collection_id, usage.instance_index)
        amount = None if usage.average_usage is None else usage.average_usage.of(resource)
        series.append(numbers.setdefault(instance, len(numbers)))
        seconds.append(usage.start_time // _MICROS)
        used.append(float("nan") if amount is None else amount)
        limits.append(requests.get(instance, 0.0))
        if len(series) >= _BATCH_ROWS:
            flush()
    flush()


def _requests(usage: Path, resource: TraceResource) -> dict[Instance, float]:
    """The last request of each instance, as share of the largest machine."""
    files = [one for one in matching(usage.parent, *_EVENTS) if one.parent == usage.parent]
    if not files:
        raise InvalidInput(
            f"--trace: expected instance_events*.json or .csv (.gz) beside {usage.name} for requests; found none",
            field="trace",
        )
    found: dict[Instance, float] = {}
    for file in files:
        for event in _objects(file, InstanceEvent):
            amount = None if event.resource_request is None else event.resource_request.of(resource)
            if amount is not None:
                found[(event.collection_id, event.instance_index)] = amount
    return found


def _objects(file: Path, row: type[Row]) -> Iterator[Row]:
    """The rows of a file. Raises InvalidInput that names the line."""
    decoder = Decoder(row, strict=False)
    place = 1
    with opened(file) as text:
        try:
            if ".csv" in file.suffixes:
                for flat in csv.DictReader(text):
                    place += 1
                    yield convert(_nested(flat), row, strict=False)
            else:
                for line in text:
                    if line.strip():
                        yield decoder.decode(line)
                    place += 1
        except (DecodeError, ValidationError, csv.Error) as error:
            fields = ", ".join(row.__struct_fields__)
            raise InvalidInput(f"{file}, line {place}: expected {fields}; found: {error}") from error


def _nested(flat: Mapping[str, str]) -> dict[str, Any]:
    """A row of CSV with its nested fields as in JSON; an empty field is missing."""
    found: dict[str, Any] = {}
    for name, value in flat.items():
        for parent in ("average_usage", "resource_request"):
            if name in (f"{parent}.cpus", f"{parent}_cpus", f"{parent}.memory", f"{parent}_memory"):
                found.setdefault(parent, {})[name[len(parent) + 1 :]] = value or None
                break
        else:
            found[name] = value
    return found
