"""Requests and usage of each workload over all its pods, from the traces of an assessment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.simulation.usecases.placed_usage import PLACES, Placed
from slackwater.traces.options import TraceResource
from slackwater.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class WorkloadAssessed:
    """One workload, (2,) each: milli-cores and bytes, summed over its pods. `requested` is the mean over the cells in
    which it ran, `used` p50, p95 and the maximum in them."""

    name: str
    pods: int
    requested: tuple[int, int]
    used: tuple[tuple[int, int, int], tuple[int, int, int]]


def workloads_of(placed: Placed) -> Sequence[WorkloadAssessed]:
    """Returns every workload with a sample, by name."""
    trace = placed.any_trace
    found = []
    for number, name in enumerate(trace.workloads):
        columns = np.flatnonzero(trace.workload == number)
        if not len(columns) or not trace.present[:, columns].any():
            continue
        requested, used = [0, 0], [(0, 0, 0), (0, 0, 0)]
        for resource, one in placed.traces.items():
            place = PLACES[resource]
            requested[place], used[place] = _of(placed, resource, one, columns)
        found.append(WorkloadAssessed(name, len(columns), (requested[0], requested[1]), (used[0], used[1])))
    return sorted(found, key=lambda one: one.name)


def _of(
    placed: Placed, resource: TraceResource, trace: Trace, columns: np.ndarray[tuple[int, ...], np.dtype[np.intp]]
) -> tuple[int, tuple[int, int, int]]:
    asked = placed.requests.get(resource, trace.limit)
    present = trace.present[:, columns]
    cells = present.any(axis=1)
    use = np.where(present, trace.usage[:, columns], 0).sum(axis=1, dtype=np.float64)[cells]
    request = np.where(present, asked[:, columns], 0).sum(axis=1, dtype=np.float64)[cells]
    p50, p95 = np.quantile(use, (0.5, 0.95))
    return round(float(request.mean())), (round(float(p50)), round(float(p95)), round(float(use.max())))
