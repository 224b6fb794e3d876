"""A trace as a history: its series are pods of prod with their limit as request, and a model predicts their peaks.

Series are put on made-up nodes as in the backtest; a node has as much as its series were ever given together, so prod
alone never over-commits it. Where a series is a whole machine, nothing is known of its pods: it is one pod that
requests the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from slackwater.backtest.adapters.predictors import contenders
from slackwater.colocation.domain.closed_loop import Period
from slackwater.colocation.domain.fleet import Fleet, Ints, PodRows
from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.models.port import Members, PeakModel
from slackwater.traces.choices import Resource, TraceFormat
from slackwater.traces.moments import Moment, moments
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


def placed(trace: Trace, layout: Layout) -> Stays:
    """Who is where; the same layout gives the same. Raises InvalidInput."""
    usual = 1 if trace.whole_machines else USUAL_VMS_PER_NODE
    per_node = usual if layout.per_node is None else layout.per_node
    chance = np.random.default_rng(layout.seed)
    if per_node == 1:
        return each_its_own(trace.present)
    if layout.churn_days is None:
        return still(trace.present, per_node, chance)
    return churned(trace.present, per_node, layout.churn_days * DAY_CELLS, chance)


@dataclass(frozen=True)
class TraceHistory:
    """See slackwater.simulation.ports.History. A resource that is not among `traces` is 0 on every node."""

    traces: Mapping[Resource, Trace]
    """Of the same series and cells, see slackwater.traces.pairing."""
    stays: Stays
    model: str
    first: int
    stop: int

    @property
    def title(self) -> str:
        return self._any.title

    @property
    def nodes(self) -> Sequence[str]:
        if self._any.whole_machines and self.stays.machines == self._any.series:
            return self._any.names
        return [f"node-{number + 1}" for number in range(self.stays.machines)]

    @property
    def period_seconds(self) -> float:
        return float(CELL_SECONDS)

    @property
    def steps(self) -> int:
        return self.stop

    @property
    def start_seconds(self) -> float:
        return float(self._any.start_seconds + self.first * CELL_SECONDS)

    @property
    def notes(self) -> Sequence[str]:
        trace = self._any
        members = (
            "each series is a whole machine and counts as one pod that requests it"
            if trace.whole_machines
            else f"{trace.series} series as pods of prod on {self.stays.machines} nodes that are made up"
        )
        return (
            f"{members}; peaks predicted by {self.model}",
            "a node has as much as its pods were ever given together; system and NUMA zones are not in a trace",
        )

    @property
    def _any(self) -> Trace:
        return next(iter(self.traces.values()))

    @cached_property
    def capacity(self) -> Ints:
        """(nodes, 2): the most that the members of each node were given at one time."""
        most = np.zeros((self.stays.machines, len(Resource)))
        for place, each in enumerate(Resource):
            if each in self.traces:
                for moment in moments(self.traces[each], self.stays, self.stop):
                    most[:, place] = np.maximum(most[:, place], moment.machine_limits)
        return np.ceil(most).astype(np.int64)

    def periods(self) -> Iterator[Period]:
        wanted = [each for each in Resource if each in self.traces]
        models = {each: contenders(self.model, each)[0].make() for each in wanted}
        streams = [moments(self.traces[each], self.stays, self.stop) for each in wanted]
        for told in zip(*streams, strict=True):
            now = dict(zip(wanted, told, strict=True))
            peaks = np.zeros_like(self.capacity)
            for each, moment in now.items():
                peaks[:, _place(each)] = _peak(models[each], moment)
            yield _period(now, peaks, self.capacity)


def _place(resource: Resource) -> int:
    return list(Resource).index(resource)


def _peak(model: PeakModel, moment: Moment) -> Ints:
    seats = moment.seats
    members = Members(seats.machine, seats.stay, moment.workload, moment.limit, moment.machine_limits)
    model.fold(moment.at_seconds, members, moment.usage)
    return np.ceil(model.peaks(moment.at_seconds, members).peak).astype(np.int64)


def _period(now: Mapping[Resource, Moment], peaks: Ints, capacity: Ints) -> Period:
    one = next(iter(now.values()))
    machine, count, nodes = one.seats.machine, len(one.usage), len(capacity)
    usage, request = np.zeros((count, 2), np.int64), np.zeros((count, 2), np.int64)
    for each, moment in now.items():
        usage[:, _place(each)] = np.ceil(moment.usage)
        request[:, _place(each)] = np.ceil(moment.limit)
    prod = np.column_stack([np.bincount(machine, usage[:, place], nodes) for place in (0, 1)]).astype(np.int64)
    zero, yes, all_nodes = np.zeros_like(capacity), np.ones(count, bool), np.ones(nodes, bool)
    pods = PodRows(
        node=machine,
        tier=np.zeros(count, np.intp),
        lse=~yes,
        listed=yes,
        cold=~yes,
        request=request,
        usage=usage,
        measured=yes,
        predicted=np.zeros_like(usage),
        has_prediction=yes,
        bound_seconds=np.full(count, np.inf),
    )
    known = Fleet(
        capacity=capacity,
        reserved=zero,
        allocatable=capacity,
        system=zero,
        system_known=all_nodes,
        prod_apps=zero,
        mid_apps=zero,
        node_usage=prod,
        node_usage_known=all_nodes,
        prod_peak=peaks,
        prod_peak_known=all_nodes,
        age_seconds=np.zeros(nodes),
        lost=~all_nodes,
        pods=pods,
    )
    return Period(prod, known, int(one.at_seconds))
