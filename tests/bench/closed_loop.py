"""The closed loop on a real trace: VMs are prod, models predict, batch fills every offer; how often is it too much?

20 VMs a node, each a pod whose limit is its request; a node has as many cores and bytes as its VMs were ever given
together, so the node is never over-committed by prod alone. One control period is one cell of the trace: five minutes,
thirty times what a node's agent takes, in which nothing is taken back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from slackwater.backtest.adapters.predictors import contenders
from slackwater.backtest.usecases.judge import Moment, moments
from slackwater.colocation.domain.closed_loop import Loop, LoopFigures, Period, closed_loops
from slackwater.colocation.domain.fleet import Fleet, Ints, PodRows
from slackwater.colocation.domain.strategy import Strategy
from slackwater.traces.choices import Resource
from slackwater.traces.placement import Stays, churned, each_its_own, still
from slackwater.traces.readers import bitbrains, google2011
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS, Trace

TRACES = Path(os.environ.get("SLACKWATER_TRACES", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
FIXTURE = TRACES / "bitbrains_rnd" / "fixture_60vm_4weeks.parquet"
WHOLE = TRACES / "bitbrains_rnd" / "rnd_2013-8.parquet"
GOOGLE = TRACES / "google2011_machines" / "usage_5min.parquet"
PER_NODE = 20
TARGET = 0.001
STRATEGIES = {
    "default": Strategy(),
    "without_margin": Strategy(cpu_reclaim_threshold_percent=100, memory_reclaim_threshold_percent=100),
}
"""What is judged, and what prediction alone would do, beside it."""


def measure(days: float | None = None) -> dict[str, Any]:
    """VMs that stay, VMs with a mean stay of two days, and whole machines of which nothing else is known.

    Raises OSError where the traces are not there.
    """
    if not (WHOLE.is_file() and GOOGLE.is_file()):
        raise OSError(f"no real traces at {TRACES}: set SLACKWATER_TRACES")
    found = {
        "bitbrains": _said(run(WHOLE, days=days)),
        "bitbrains_churn": _said(run(WHOLE, churn_days=2.0, days=days)),
        "google_machines": _said(run(GOOGLE, days=days, reader=google2011.read)),
    }
    judged = [figures for trace in found.values() for figures in trace["default"].values()]
    worst, longest = (max(each[name] for each in judged) for name in ("exceeded_share", "longest_episode"))
    return {
        "target": f"beyond capacity in at most {TARGET:.1%} of minutes, an episode at most 2 control periods",
        "passed": worst <= TARGET and longest <= 2,
        "exceeded_share": worst,
        "longest_episode": longest,
        **found,
    }


def run(
    path: Path,
    *,
    churn_days: float | None = None,
    days: float | None = None,
    model: str = "workload-profile",
    reader: Callable[[Path, Resource], Trace] = bitbrains.read,
) -> dict[str, Loop]:
    """From the beginning of the trace: cold starts are part of it."""
    both = {each: reader(path, each) for each in Resource}
    first = both[Resource.CPU]
    cells = first.cells if days is None else min(int(days * DAY_CELLS), first.cells)
    periods = _periods(both, _placed(first, churn_days), cells, model)
    return dict(zip(STRATEGIES, closed_loops(periods, list(STRATEGIES.values())), strict=True))


def _placed(trace: Trace, churn_days: float | None) -> Stays:
    chance = np.random.default_rng(1)
    if trace.whole_machines:
        return each_its_own(trace.present)
    if churn_days is None:
        return still(trace.present, PER_NODE, chance)
    return churned(trace.present, PER_NODE, churn_days * DAY_CELLS, chance)


def _periods(traces: Mapping[Resource, Trace], stays: Stays, cells: int, model: str) -> Iterator[Period]:
    models = {each: contenders(model, each)[0].make() for each in Resource}
    streams = [_told(traces[each], stays, cells) for each in Resource]
    capacity = np.column_stack([_capacity(traces[each], stays, cells) for each in Resource])
    for pair in zip(*streams, strict=True):
        peaks = []
        for each, moment in zip(Resource, pair, strict=True):
            models[each].fold(moment.at_seconds, moment.members, moment.usage)
            peaks.append(np.ceil(models[each].peaks(moment.at_seconds, moment.members).peak))
        yield _period(pair, np.column_stack(peaks).astype(np.int64), capacity)


def _told(trace: Trace, stays: Stays, cells: int) -> Iterator[Moment]:
    return moments(trace, stays, cells, np.arange(int(trace.workload.max()) + 1))


def _capacity(trace: Trace, stays: Stays, cells: int) -> Ints:
    """The most that the members of each node were given at one time."""
    most = np.zeros(stays.machines)
    for moment in _told(trace, stays, cells):
        most = np.maximum(most, moment.limits)
    return np.ceil(most).astype(np.int64)


def _period(pair: tuple[Moment, ...], peaks: Ints, capacity: Ints) -> Period:
    cpu, memory = pair
    count, nodes = len(cpu.usage), len(capacity)
    usage = np.ceil(np.column_stack([cpu.usage, memory.usage])).astype(np.int64)
    zero, yes = np.zeros_like(capacity), np.ones(count, bool)
    pods = PodRows(
        node=cpu.members.machine,
        tier=np.zeros(count, np.intp),
        lse=~yes,
        listed=yes,
        cold=~yes,
        request=np.ceil(np.column_stack([cpu.members.limit, memory.members.limit])).astype(np.int64),
        usage=usage,
        measured=yes,
        predicted=np.zeros_like(usage),
        has_prediction=yes,
        bound_seconds=np.full(count, np.inf),
    )
    sums = [np.bincount(cpu.members.machine, usage[:, place], nodes) for place in (0, 1)]
    prod = np.column_stack(sums).astype(np.int64)
    known = Fleet(
        capacity=capacity,
        reserved=zero,
        allocatable=capacity,
        system=zero,
        system_known=np.ones(nodes, bool),
        prod_apps=zero,
        mid_apps=zero,
        node_usage=prod,
        node_usage_known=np.ones(nodes, bool),
        prod_peak=peaks,
        prod_peak_known=np.ones(nodes, bool),
        age_seconds=np.zeros(nodes),
        lost=np.zeros(nodes, bool),
        pods=pods,
    )
    return Period(prod, known, int(cpu.at_seconds))


def _said(loops: Mapping[str, Loop]) -> dict[str, dict[str, dict[str, float]]]:
    return {name: {"cpu": _figures(loop.cpu), "memory": _figures(loop.memory)} for name, loop in loops.items()}


def _figures(figures: LoopFigures) -> dict[str, float]:
    told = {key: round(value, 5) for key, value in asdict(figures).items()}
    hours = round(figures.periods * CELL_SECONDS / 3600)
    return {**told, "exceeded_share": round(figures.exceeded_share, 6), "node_hours": hours}
