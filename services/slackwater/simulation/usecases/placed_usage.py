"""Usage of pods placed on nodes, cell by cell, in the form that the functions that decide offers take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slackwater.offers.closed_loop import Period
from slackwater.offers.fleet import FleetArrays, Ints, PodRows
from slackwater.peaks.port import Members, PeakModel
from slackwater.traces.moments import TraceCell, moments
from slackwater.traces.options import TraceResource
from slackwater.traces.placement import Stays
from slackwater.traces.trace import Amounts, Trace

Floats = NDArray[np.float64]
Now = Mapping[TraceResource, TraceCell]


@dataclass(frozen=True)
class Placed:
    """All pods are prod. A resource that is not in `traces` is 0 on every node."""

    title: str
    traces: Mapping[TraceResource, Trace]
    """Traces with the same series and cells (see slackwater.traces.pairs); predictions are bounded by the limit."""
    stays: Stays
    nodes: Sequence[str]
    capacity: Ints
    """(nodes, 2)"""
    requests: Mapping[TraceResource, Amounts]
    """(cells, series) requests; empty if they equal the limits."""
    notes: Sequence[str]
    """Limitations of the data, for display with the figures."""
    there: NDArray[np.bool_] | None = None
    """(cells, nodes) None: all nodes are always present. An absent node has no capacity."""

    @property
    def any_trace(self) -> Trace:
        return next(iter(self.traces.values()))

    @property
    def cells(self) -> int:
        return self.any_trace.cells

    def moments(self, stop: int) -> Iterator[dict[TraceResource, TraceCell]]:
        """Yields every cell before `stop`."""
        streams = [moments(trace, self.stays, stop) for trace in self.traces.values()]
        for cells in zip(*streams, strict=True):
            yield dict(zip(self.traces, cells, strict=True))

    def requested(self, now: Now) -> Floats:
        """Returns (members, 2) the requests."""
        amounts = np.zeros((_count(now), len(PLACES)))
        for resource, moment in now.items():
            asked = self.requests.get(resource)
            amounts[:, PLACES[resource]] = moment.limit if asked is None else asked[moment.cell, moment.seats.series]
        return amounts

    def period(self, now: Now, peaks: Ints) -> Period:
        """Returns the usage of this cell and the state at its end; `peaks` (nodes, 2) are those of prod."""
        cell = next(iter(now.values()))
        machine, count, nodes = cell.seats.machine, _count(now), len(self.capacity)
        usage = np.zeros((count, len(PLACES)), np.int64)
        for each, moment in now.items():
            usage[:, PLACES[each]] = np.ceil(moment.usage)
        prod = np.column_stack([np.bincount(machine, usage[:, place], nodes) for place in (0, 1)]).astype(np.int64)
        zero, yes, every = np.zeros_like(self.capacity), np.ones(count, bool), np.ones(nodes, bool)
        capacity = self.capacity if self.there is None else self.capacity * self.there[cell.cell][:, None]
        pods = PodRows(
            node=machine,
            tier=np.zeros(count, np.intp),
            lse=~yes,
            listed=yes,
            cold=~yes,
            request=np.ceil(self.requested(now)).astype(np.int64),
            usage=usage,
            measured=yes,
            predicted=np.zeros_like(usage),
            has_prediction=yes,
            bound_seconds=np.full(count, np.inf),
        )
        known = FleetArrays(
            capacity=capacity,
            reserved=zero,
            allocatable=capacity,
            system=zero,
            system_known=every,
            prod_apps=zero,
            mid_apps=zero,
            node_usage=prod,
            node_usage_known=every,
            prod_peak=peaks,
            prod_peak_known=every,
            age_seconds=np.zeros(nodes),
            lost=~every,
            pods=pods,
            kept_mid=zero,
            kept_batch=zero,
        )
        return Period(prod, known, int(cell.at_seconds))


PLACES: Mapping[TraceResource, int] = {each: place for place, each in enumerate(TraceResource)}
"""The column of each resource in arrays of both."""


def peak(model: PeakModel, moment: TraceCell) -> Ints:
    """Returns (nodes,) the peak of the next 24 hours that the model predicts after this cell, rounded up."""
    seats = moment.seats
    members = Members(seats.machine, seats.stay, moment.workload, moment.limit, moment.machine_limits)
    model.fold(moment.at_seconds, members, moment.usage)
    return np.ceil(model.peaks(moment.at_seconds, members).peak).astype(np.int64)


def filled_notes(placed: Placed) -> Iterator[str]:
    """Yields a note for each resource with many unsampled cells."""
    for resource, trace in placed.traces.items():
        there = int(np.count_nonzero(trace.present))
        if there and trace.repairs.filled / there > _MUCH_FILLED:
            yield f"{resource}: {trace.repairs.filled / there:.0%} of the cells had no sample and were filled"


_MUCH_FILLED = 0.05


def _count(now: Now) -> int:
    return len(next(iter(now.values())).usage)
