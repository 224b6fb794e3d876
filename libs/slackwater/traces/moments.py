"""Iterates over a placed trace by cell: the placement, usage and limit of each series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slackwater.traces.placement import Seats, Stays, seating
from slackwater.traces.trace import Rows, Trace

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TraceCell:
    """One cell. The arrays of members are in the order of `seats`: by machine."""

    cell: int
    at_seconds: float
    """The end of the cell."""
    seats: Seats
    workload: Rows
    """Of each member; the same object as long as `seats` is."""
    usage: Floats
    limit: Floats
    machine_limits: Floats
    """(machines,) the sum of the members' limits."""

    @property
    def machine_usage(self) -> Floats:
        return by_machine(self.seats.machine, self.usage, len(self.machine_limits))


def moments(trace: Trace, stays: Stays, stop: int) -> Iterator[TraceCell]:
    """Every cell before `stop`."""
    seats: Seats | None = None
    workload = np.empty(0, np.intp)
    for cell, now in zip(range(stop), seating(stays, trace.series, trace.cells), strict=False):
        if now is not seats:
            seats, workload = now, trace.workload[now.series]
        limit = trace.limit[cell, now.series].astype(np.float64)
        yield TraceCell(
            cell=cell,
            at_seconds=trace.end_of(cell),
            seats=now,
            workload=workload,
            usage=trace.usage[cell, now.series].astype(np.float64),
            limit=limit,
            machine_limits=by_machine(now.machine, limit, stays.machines),
        )


def by_machine(machine: Rows, amounts: Floats, machines: int) -> Floats:
    """(machines,) sums."""
    return np.bincount(machine, weights=amounts, minlength=machines).astype(np.float64, copy=False)
