"""Random placement of series on machines over time, as in a cluster that schedules without knowledge of the series.

A stay is the time of one pod on one machine. A move begins a new stay: a new pod for models by pod, the same workload
for models by workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput
from slackwater.traces.trace import Rows


class Chance(Protocol):
    """The interface of the random generator; NumPy's Generator implements it."""

    def permutation(self, x: int, /) -> NDArray[np.int64]: ...
    def integers(self, low: int, high: int, /) -> np.int64: ...
    def standard_exponential(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Stays:
    """All arrays (stays,); the number of a stay is its place in them. A series has at most one stay at a time."""

    machine: Rows
    series: Rows
    begin: Rows
    """The first cell of the stay."""
    end: Rows
    """The first cell after it."""
    machines: int


@dataclass(frozen=True, slots=True)
class Seats:
    """The stays in one cell, ordered by machine. The object is the same as long as the placement does not change."""

    stay: Rows
    series: Rows
    machine: Rows


def each_its_own(present: NDArray[np.bool_]) -> Stays:
    """Place each series on a machine of its own."""
    series, begin, end = presences(present)
    return Stays(series.copy(), series, begin, end, present.shape[1])


def still(present: NDArray[np.bool_], per_machine: int, chance: Chance) -> Stays:
    """Place each series on one machine for the whole trace; machines differ by at most one series."""
    machines = machines_for(present.shape[1], per_machine)
    seat = np.asarray(chance.permutation(present.shape[1]), dtype=np.intp) % machines
    series, begin, end = presences(present)
    return Stays(seat[series], series, begin, end, machines)


def churned(present: NDArray[np.bool_], per_machine: int, mean_cells: float, chance: Chance) -> Stays:
    """Move each series to another machine after exponentially distributed times with this mean.

    Raises InvalidInput when there is no other machine to move to.
    """
    machines = machines_for(present.shape[1], per_machine)
    if machines < 2:
        raise InvalidInput(
            f"--churn needs two machines, and {present.shape[1]} series fit on one of {per_machine}; "
            "fewer --vms-per-node, or --churn none",
            field="churn",
        )
    seat = np.asarray(chance.permutation(present.shape[1]), dtype=np.intp) % machines
    moves = [_moves(int(at), machines, len(present), mean_cells, chance) for at in seat]
    found: list[tuple[int, int, int, int]] = []
    for series, begin, end in zip(*presences(present), strict=True):
        for since, until, machine in moves[series]:
            if since < end and begin < until:
                found.append((machine, series, max(since, begin), min(until, end)))
    machine, series, begin, end = np.array(found, dtype=np.intp).reshape(-1, 4).T
    return Stays(machine, series, begin, end, machines)


def machines_for(series: int, per_machine: int) -> int:
    return max(1, round(series / per_machine))


def _moves(machine: int, machines: int, cells: int, mean: float, chance: Chance) -> list[tuple[int, int, int]]:
    """(since, until, machine) from the first cell to the last."""
    found, since, until = [], 0, 0.0
    while since < cells:
        until += max(1.0, chance.standard_exponential() * mean)
        following = min(cells, max(since + 1, round(until)))
        found.append((since, following, machine))
        since = following
        machine = int(machine + chance.integers(1, machines)) % machines
    return found


def presences(present: NDArray[np.bool_]) -> tuple[Rows, Rows, Rows]:
    """(series, first cell, first cell after) of every contiguous period in which a series is present."""
    edge = np.zeros((1, present.shape[1]), bool)
    change = np.diff(np.concatenate([edge, present, edge]).astype(np.int8), axis=0)
    series, begin = np.nonzero((change == 1).T)
    _, end = np.nonzero((change == -1).T)
    return series, begin, end


def seating(stays: Stays, series: int, cells: int) -> Iterator[Seats]:
    """One `Seats` for each cell."""
    begins, ends = np.argsort(stays.begin, kind="stable"), np.argsort(stays.end, kind="stable")
    begun, ended = (
        np.searchsorted(values[order], np.arange(cells + 1))
        for values, order in ((stays.begin, begins), (stays.end, ends))
    )
    seated = np.full(series, -1, np.intp)
    seats = _seats(seated, stays)
    for cell in range(cells):
        leaving, coming = ends[ended[cell] : ended[cell + 1]], begins[begun[cell] : begun[cell + 1]]
        if len(leaving) or len(coming):
            seated[stays.series[leaving]] = -1
            seated[stays.series[coming]] = coming
            seats = _seats(seated, stays)
        yield seats


def _seats(seated: Rows, stays: Stays) -> Seats:
    there = seated[seated >= 0]
    order = there[np.argsort(stays.machine[there], kind="stable")]
    return Seats(order, stays.series[order], stays.machine[order])


def wrong_keys(workloads: int, share: float, chance: Chance) -> Rows:
    """For each workload the workload whose history it uses: its own, or another's for `share` of them."""
    keys = np.arange(workloads)
    confused = np.asarray(chance.permutation(workloads), dtype=np.intp)[: round(share * workloads)]
    if len(confused) > 1:
        keys[confused] = np.roll(confused, 1)
    return keys
