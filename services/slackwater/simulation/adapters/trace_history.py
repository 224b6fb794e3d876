"""A trace as a history: its series are pods of prod with their limit as request, and a model predicts their peaks.

Series are put on made-up nodes as in the backtest; a node has as much as its series were ever given together, so prod
alone never over-commits it. Where a series is a whole machine, nothing is known of its pods: it is one pod that
requests the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slackwater.backtest.adapters.predictors import contenders
from slackwater.colocation.domain.closed_loop import Period
from slackwater.colocation.domain.fleet import Ints
from slackwater.model.errors import InvalidInput
from slackwater.simulation.usecases.placed import PLACES, Placed, peak
from slackwater.traces.choices import Resource, TraceFormat
from slackwater.traces.moments import moments
from slackwater.traces.pairing import paired
from slackwater.traces.placement import Stays, churned, each_its_own, still
from slackwater.traces.readers.formats import read_trace
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS, Trace

USUAL_VMS_PER_NODE = 20
USUAL_MODEL = "workload-profile"


@dataclass(frozen=True, slots=True)
class Layout:
    """How series are put on nodes. `per_node` None: 20, or 1 where each series is a whole machine."""

    per_node: int | None = None
    churn_days: float | None = None
    """Mean stay; None: nobody moves."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.per_node is not None and self.per_node < 1:
            raise InvalidInput(f"--vms-per-node: {self.per_node} is not allowed; at least 1", field="vms-per-node")


def both(path: Path, form: TraceFormat, resources: Sequence[Resource]) -> dict[Resource, Trace]:
    """The trace of each resource, of the same series and cells. Raises InvalidInput, Misconfigured."""
    return paired({each: read_trace(path, form, each) for each in resources})


def placed(traces: Mapping[Resource, Trace], layout: Layout) -> Placed:
    """The same layout gives the same. Raises InvalidInput."""
    trace = next(iter(traces.values()))
    stays = _stays(trace, layout)
    alone = trace.whole_machines and stays.machines == trace.series
    whole = "each series is a whole machine and counts as one pod that requests it"
    made_up = f"{trace.series} series as pods of prod on {stays.machines} nodes that are made up"
    return Placed(
        title=trace.title,
        traces=traces,
        stays=stays,
        nodes=trace.names if alone else [f"node-{number + 1}" for number in range(stays.machines)],
        capacity=_capacity(traces, stays),
        requests={},
        notes=(
            whole if trace.whole_machines else made_up,
            "a node has as much as its pods were ever given together; system and NUMA zones are not in a trace",
        ),
        there=trace.present if alone else None,
    )


def _stays(trace: Trace, layout: Layout) -> Stays:
    usual = 1 if trace.whole_machines else USUAL_VMS_PER_NODE
    per_node = usual if layout.per_node is None else layout.per_node
    chance = np.random.default_rng(layout.seed)
    if per_node == 1:
        return each_its_own(trace.present)
    if layout.churn_days is None:
        return still(trace.present, per_node, chance)
    return churned(trace.present, per_node, layout.churn_days * DAY_CELLS, chance)


def _capacity(traces: Mapping[Resource, Trace], stays: Stays) -> Ints:
    """The most that the members of each node were given at one time."""
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
        return (f"{first}; peaks predicted by {self.model}", *others)

    def periods(self) -> Iterator[Period]:
        models = {each: contenders(self.model, each, option="model")[0].make() for each in self.placed.traces}
        for now in self.placed.moments(self.stop):
            peaks = np.zeros_like(self.placed.capacity)
            for each, moment in now.items():
                peaks[:, PLACES[each]] = peak(models[each], moment)
            yield self.placed.period(now, peaks)
