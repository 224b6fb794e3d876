"""container_usage and container_meta of Alibaba's cluster-trace-v2018: long-running containers, per cent of requests.

As published (.csv, .csv.gz or .tar.gz, no headers). CPU % is of the container's request (100 is one core in
container_meta), memory % of its size (100 is the largest machine, which counts as 512 GiB). The workload is the
application's deploy unit. Schema: cluster-trace-v2018/schema.md of github.com/alibaba/clusterdata.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slackwater.model.errors import InvalidInput
from slackwater.traces.accumulation import SampleAccumulator
from slackwater.traces.grid import grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.alibaba2018 import MACHINE_BYTES, shares_of
from slackwater.traces.readers.delimited import FileColumns, SeriesNumbers, batches
from slackwater.traces.readers.files import matching, one_of, required
from slackwater.traces.trace import Trace

USAGE = FileColumns(("container", "machine", "seconds", "CPU %", "memory %"), frozenset(("container", "machine")))
META = FileColumns(
    ("container", "machine", "seconds", "deploy unit", "status", "CPU request", "CPU limit", "memory size"),
    frozenset(("container", "machine", "deploy unit", "status")),
)
FILES = "container_usage*.csv(.gz|.tar.gz), with container_meta*.csv(.gz|.tar.gz) beside it"
_PATTERNS = ("container_usage*.csv", "container_usage*.csv.gz", "container_usage*.tar.gz")
_META = ("container_meta*.csv", "container_meta*.csv.gz", "container_meta*.tar.gz")


@dataclass(frozen=True, slots=True)
class _Container:
    workload: str
    limit: dict[TraceResource, float]


def recognises(path: Path) -> bool:
    return bool(matching(path, *_PATTERNS))


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput, Misconfigured."""
    column = "CPU %" if resource is TraceResource.CPU else "memory %"
    file = one_of(required(path, FILES, *_PATTERNS))
    containers = _containers(file)
    rows, numbers = SampleAccumulator(), SeriesNumbers()
    for batch in batches(file, USAGE, ("container", "seconds", column)):
        names = batch.names["container"]
        unknown = next((name for name in names.values if name not in containers), None)
        if unknown is not None:
            raise InvalidInput(f"{file}: container {unknown} is not in container_meta; expected the same trace's")
        limits = np.array([containers[name].limit[resource] for name in names.values])[names.codes]
        at = batch.whole("seconds")
        rows.add(numbers.of(names.values, names.codes), at, shares_of(batch.numbers[column]) * limits, limits)
    series = list(numbers.numbers)
    workloads = [containers[name].workload for name in series]
    return grid(rows.samples(), series, workloads, title=file.name, resource=resource)


def _containers(usage: Path) -> dict[str, _Container]:
    """By name; of several rows the last counts."""
    found = [one for one in matching(usage.parent, *_META) if one.parent == usage.parent]
    if not found:
        raise InvalidInput(
            f"--trace: expected container_meta*.csv(.gz|.tar.gz) beside {usage.name} for requests; found none",
            field="trace",
        )
    containers = {}
    for batch in batches(found[0], META, ("container", "deploy unit", "CPU request", "memory size")):
        rows = zip(
            batch.names["container"].texts(),
            batch.names["deploy unit"].texts(),
            batch.numbers["CPU request"].tolist(),
            batch.numbers["memory size"].tolist(),
            strict=True,
        )
        for name, unit, cpu, memory in rows:
            limit = {TraceResource.CPU: cpu * 10, TraceResource.MEMORY: memory / 100 * MACHINE_BYTES}
            containers[name] = _Container(unit, limit)
    return containers
