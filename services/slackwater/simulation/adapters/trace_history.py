"""Presents a trace as a history: its series are prod pods that request their limit, and a model predicts their peaks.

Series are placed on generated nodes as in the backtest. The capacity of a node is the maximum combined limit of its
series, so prod alone never overcommits it. A series that is a whole machine becomes one pod that requests the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slackwater.backtest.adapters.predictors import contenders
from slackwater.model.errors import InvalidInput
from slackwater.model.plurals import counted
from slackwater.offers.closed_loop import Period
from slackwater.offers.fleet import Ints
from slackwater.simulation.usecases.placed_usage import PLACES, Placed, filled_notes, peak
from slackwater.traces.moments import moments
from slackwater.traces.options import TraceResource
from slackwater.traces.pairs import paired
from slackwater.traces.placement import Stays, churned, each_its_own, still
from slackwater.traces.readers.formats import detected, read_trace, resources_of
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS, Repairs, Trace

USUAL_VMS_PER_NODE = 20
USUAL_MODEL = "workload-profile"


@dataclass(frozen=True, slots=True)
class TraceLayout:
    """How series are placed on nodes. `per_node` None: 20, or 1 if each series is a whole machine."""

    per_node: int | None = None
    churn_days: float | None = None
    """Mean stay on a node; None: pods do not move."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.per_node is not None and self.per_node < 1:
            raise InvalidInput(f"--vms-per-node: {self.per_node} is not allowed; at least 1", field="vms-per-node")
        if self.seed < 0:
            raise InvalidInput(f"--seed: {self.seed} is not allowed; at least 0", field="seed")


def both(path: Path, form: str | None, resources: Sequence[TraceResource]) -> dict[TraceResource, Trace]:
    """Reads the trace of each resource, with the same series and cells. Raises InvalidInput, Misconfigured."""
    form = form or detected(path)
    known = [resource for resource in resources if resource in resources_of(form)] or resources
    return paired({resource: read_trace(path, form, resource) for resource in known})


def placed(traces: Mapping[TraceResource, Trace], layout: TraceLayout) -> Placed:
    """Places the series. The same layout gives the same result. Raises InvalidInput."""
    trace = next(iter(traces.values()))
    stays = _stays(trace, layout)
    alone = trace.whole_machines and stays.machines == trace.series
    whole = "each series is a whole machine and counts as one pod that requests the machine"
    made_up = f"{trace.series} series as prod pods on {counted(stays.machines, 'generated node')}"
    there = _occupied(stays, trace.cells)
    return Placed(
        title=trace.title,
        traces=traces,
        stays=stays,
        nodes=trace.names if alone else [f"node-{number + 1}" for number in range(stays.machines)],
        capacity=_capacity(traces, stays),
        requests={},
        notes=(
            whole if trace.whole_machines else made_up,
            "a node's capacity is the maximum combined limit of its pods; a trace has no system usage or NUMA zones",
            *_holes(there),
            *(note for each, one in traces.items() for note in _mended(each, one.repairs)),
        ),
        there=None if there.all() else there,
    )


def _occupied(stays: Stays, cells: int) -> NDArray[np.bool_]:
    """Returns (cells, nodes) whether a node has recorded pods. Without any it counts as absent: its use is unknown."""
    moves = np.zeros((cells + 1, stays.machines), np.int32)
    np.add.at(moves, (stays.begin, stays.machine), 1)
    np.add.at(moves, (stays.end, stays.machine), -1)
    occupied: NDArray[np.bool_] = np.cumsum(moves, axis=0)[:-1] > 0
    return occupied


def _holes(there: NDArray[np.bool_]) -> Iterator[str]:
    occupied = there.any(axis=1)
    if not occupied.all():
        hours = np.count_nonzero(~occupied) * CELL_SECONDS / 3600
        yield f"{hours:.1f} hours have no records: all nodes count as absent there, not as empty"
    alone = 1 - float(there[occupied].mean())
    if alone:
        yield f"in {alone:.1%} of the cells a node has no series with a sample: it counts as absent"


def _mended(resource: TraceResource, repairs: Repairs) -> Iterator[str]:
    """Yields notes on repaired rows. Not among them are filled cells, which `filled_notes` reports, and several rows in
    one cell, which are normal for samples closer than five minutes."""
    if repairs.unusable:
        why = "not a number, negative, or with a limit of 0"
        yield f"{resource}: {repairs.unusable:,} of {repairs.rows:,} rows are left out: {why}"
    if repairs.over_limit:
        yield f"{resource}: {repairs.over_limit:,} of {repairs.rows:,} rows exceed their limit and count with it"
    if repairs.empty_series:
        yield f"{resource}: {repairs.empty_series:,} series had no usable row and were left out"


def _stays(trace: Trace, layout: TraceLayout) -> Stays:
    usual = 1 if trace.whole_machines else USUAL_VMS_PER_NODE
    per_node = usual if layout.per_node is None else layout.per_node
    chance = np.random.default_rng(layout.seed)
    if per_node == 1:
        return each_its_own(trace.present)
    if layout.churn_days is None:
        return still(trace.present, per_node, chance)
    return churned(trace.present, per_node, layout.churn_days * DAY_CELLS, chance)


def _capacity(traces: Mapping[TraceResource, Trace], stays: Stays) -> Ints:
    """Returns the maximum combined limit of the members of each node at one time."""
    most = np.zeros((stays.machines, len(PLACES)))
    for each, trace in traces.items():
        for moment in moments(trace, stays, trace.cells):
            most[:, PLACES[each]] = np.maximum(most[:, PLACES[each]], moment.machine_limits)
    return np.ceil(most).astype(np.int64)


@dataclass(frozen=True)
class TraceHistory:
    """See slackwater.simulation.ports.History."""

    placed: Placed
    model: str
    first: int
    stop: int

    @property
    def title(self) -> str:
        return self.placed.title

    @property
    def nodes(self) -> Sequence[str]:
        return self.placed.nodes

    @property
    def period_seconds(self) -> float:
        return float(CELL_SECONDS)

    @property
    def steps(self) -> int:
        return self.stop

    @property
    def start_seconds(self) -> float:
        return float(self.placed.any_trace.start_seconds + self.first * CELL_SECONDS)

    @property
    def notes(self) -> Sequence[str]:
        first, *others = self.placed.notes
        return (f"{first}; peaks predicted by {self.model}", *others, *filled_notes(self.placed))

    def periods(self) -> Iterator[Period]:
        models = {trace: contenders(self.model, trace, option="model")[0].make() for trace in self.placed.traces}
        for now in self.placed.moments(self.stop):
            peaks = np.zeros_like(self.placed.capacity)
            for each, moment in now.items():
                peaks[:, PLACES[each]] = peak(models[each], moment)
            yield self.placed.period(now, peaks)
