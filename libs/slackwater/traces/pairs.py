"""Aligns the CPU and memory traces of the same series over the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from slackwater.model.errors import InvalidInput
from slackwater.traces.options import TraceResource
from slackwater.traces.trace import Rows, Trace


def paired(traces: Mapping[TraceResource, Trace]) -> dict[TraceResource, Trace]:
    """The traces restricted to their common series and cells; a series is present where it is present in all.

    Raises InvalidInput when nothing is left.
    """
    first = next(iter(traces.values()))
    names = [name for name in first.names if all(name in set(trace.names) for trace in traces.values())]
    start = max(trace.start_seconds for trace in traces.values())
    stop = min(int(trace.end_of(trace.cells - 1)) for trace in traces.values())
    if not names or start >= stop:
        have = " and ".join(f"{each} of {trace.series} series" for each, trace in traces.items())
        raise InvalidInput(f"{first.title}: {have} have no series or no time in common", field="trace")
    kept, workload = np.unique(first.workload[_places(first, names)], return_inverse=True)
    workloads = [first.workloads[number] for number in kept] if first.workloads else []
    cut = {
        each: replace(_cut(trace, names, workload.reshape(-1), start, stop), workloads=workloads)
        for each, trace in traces.items()
    }
    present = np.logical_and.reduce([trace.present for trace in cut.values()])
    return {each: replace(trace, present=present) for each, trace in cut.items()}


def _cut(trace: Trace, names: list[str], workload: Rows, start: int, stop: int) -> Trace:
    first, last = trace.cell_at(start), trace.cell_at(stop)
    if first == 0 and last == trace.cells and list(trace.names) == names:
        return trace
    rows, columns = slice(first, last), _places(trace, names)
    return replace(
        trace,
        start_seconds=start,
        names=names,
        workload=workload,
        usage=trace.usage[rows, columns],
        limit=trace.limit[rows, columns],
        present=trace.present[rows, columns],
    )


def _places(trace: Trace, names: list[str]) -> Rows:
    place = {name: number for number, name in enumerate(trace.names)}
    return np.array([place[name] for name in names], np.intp)
