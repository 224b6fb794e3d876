"""Assesses how much could be lent at which risk: each model predicts over time, and each threshold lends the rest.

At each cell a model has seen only earlier usage, predicts the next 24 hours, and is compared with what followed (see
slackwater.backtest). Colocation's own functions compute the offers, which count as fully used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slackwater.backtest.domain.measures import ErrorTally as PeakTally
from slackwater.backtest.domain.oracle import oracle
from slackwater.model.plurals import counted
from slackwater.offers.closed_loop import Filling
from slackwater.offers.strategy import Strategy
from slackwater.peaks.port import PeakModel
from slackwater.simulation.domain.risk import LONG_DAYS, Advice, Choice, RatedChoice, advise, headroom_percent
from slackwater.simulation.domain.tally import Came, Tally
from slackwater.simulation.ports import SimulationProgress
from slackwater.simulation.usecases.placed_usage import PLACES, Floats, Placed, filled_notes, peak
from slackwater.simulation.usecases.replay import PROGRESS_STEPS, Variant
from slackwater.simulation.usecases.workload_usage import WorkloadAssessed, workloads_of
from slackwater.traces.moments import by_machine
from slackwater.traces.options import TraceResource
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS

Curves = NDArray[np.float32]
USUAL_PERCENT: Mapping[TraceResource, int] = {TraceResource.CPU: 60, TraceResource.MEMORY: 65}
WARM_UP_DAYS, SHORT_WARM_UP_DAYS = 8, 2
PERCENTS = (70, 80, 90, 100)
"""Reclaim thresholds that are tested beside the default and the highest that may be recommended."""


@dataclass(frozen=True, slots=True)
class Model:
    """A peak model with its label."""

    label: str
    make: Callable[[TraceResource], PeakModel]


@dataclass(frozen=True, slots=True)
class NodeAssessed:
    """One node, both resources: (2,) each, in milli-cores and bytes. `requested` is the mean over the cells."""

    name: str
    capacity: tuple[int, int]
    requested: tuple[int, int]
    used: tuple[tuple[int, int, int], tuple[int, int, int]]
    """p50, p95 and the maximum of each."""
    reclaimable_share: tuple[float, float]
    """Share of the capacity with the advised choice, or with the default if none is advised."""
    exceeded_minutes: tuple[float, float]


@dataclass(frozen=True, slots=True)
class ResourceAssessed:
    """One resource over all nodes."""

    capacity: int
    requested: int
    used: tuple[int, int, int]
    """p50, p95 and the maximum of the sum over all nodes."""
    judged: Sequence[RatedChoice]
    """The default choice first."""
    advice: Advice | None


@dataclass(frozen=True, slots=True)
class Assessment:
    """The result of an assessment."""

    placed: Placed
    first: int
    """The first cell that counts; earlier cells are warm-up."""
    accepted: float
    resources: Mapping[TraceResource, ResourceAssessed]
    nodes: Sequence[NodeAssessed]
    workloads: Sequence[WorkloadAssessed]
    warnings: Sequence[str]
    film: Mapping[TraceResource, tuple[Floats, Floats, Floats]]
    """(counted cells,) over all nodes: used, offered with the advised choice, capacity."""


def assess(
    placed: Placed, models: Sequence[Model], percents: Sequence[int], accepted: float, watch: SimulationProgress
) -> Assessment:
    """Assesses the first of `models` with every one of `percents` (empty: PERCENTS and the highest that may be
    recommended), and the others with the default threshold."""
    first, headroom = _first(placed.cells), headroom_percent(placed.cells / DAY_CELLS)
    choices = choices_of(models, percents or sorted({*PERCENTS, 100 - headroom} - set(USUAL_PERCENT.values())))
    watch.begin("predicting", placed.cells * len(models) * len(placed.traces))
    peaks = {resource: _predicted(placed, resource, models, watch) for resource in placed.traces}
    watch.begin("lending", placed.cells)
    tallies, used, requested = _lent(placed, choices, peaks, first, watch)
    warnings = [*placed.notes, *warnings_of(placed, requested)]
    cautious = _cautious(placed.cells)
    occupied = slice(None) if placed.there is None else placed.there.any(axis=1)
    resources, of_nodes, film = {}, [], {}
    for resource in placed.traces:
        place, whole = PLACES[resource], _violations(placed, resource, models, peaks[resource], first)
        judged = [
            _judged(choice[resource], tally, place, whole[choice[resource].model])
            for choice, tally in zip(choices, tallies, strict=True)
        ]
        advice = advise(judged, accepted, headroom=headroom, cautious=cautious)
        chosen = next((n for n, rated in enumerate(judged) if advice and rated.choice == advice.choice), 0)
        total = used[occupied, :, place].sum(axis=1)
        resources[resource] = ResourceAssessed(
            capacity=int(placed.capacity[:, place].sum()),
            requested=int(requested[:, place].sum()),
            used=quantiles(total),
            judged=judged,
            advice=advice,
        )
        of_nodes.append(tallies[chosen])
        film[resource] = _film(tallies[chosen], place)
    trace = placed.any_trace
    tally_of = dict(zip(placed.traces, of_nodes, strict=True))
    nodes = [_node(placed, number, used, requested, tally_of) for number in range(len(placed.nodes))]
    return Assessment(
        placed, first, accepted, resources, nodes, [] if trace.whole_machines else workloads_of(placed), warnings, film
    )


def choices_of(models: Sequence[Model], percents: Sequence[int]) -> list[dict[TraceResource, Choice]]:
    """Returns the choices to test, the default first. A percentage applies to both resources."""
    main = models[0].label
    choices = [{resource: Choice(USUAL_PERCENT[resource], main) for resource in TraceResource}]
    choices += [{resource: Choice(percent, main) for resource in TraceResource} for percent in percents]
    return choices + [
        {resource: Choice(USUAL_PERCENT[resource], model.label) for resource in TraceResource} for model in models[1:]
    ]


def _first(cells: int) -> int:
    """Returns the length of the warm-up: 8 days of two weeks or more, 2 days of more than three, else none."""
    days = cells / DAY_CELLS
    if days >= LONG_DAYS:
        return WARM_UP_DAYS * DAY_CELLS
    return SHORT_WARM_UP_DAYS * DAY_CELLS if days > SHORT_WARM_UP_DAYS + 1 else 0


def _cautious(cells: int) -> str:
    days = cells / DAY_CELLS
    return f"{days:.1f} days are too short to recommend more" if days < 7 else ""


def _predicted(
    placed: Placed, resource: TraceResource, models: Sequence[Model], watch: SimulationProgress
) -> dict[str, Curves]:
    """Returns (cells, nodes) for each model: its prediction at the end of each cell."""
    made = {model.label: model.make(resource) for model in models}
    peaks = {label: np.zeros((placed.cells, len(placed.nodes)), np.float32) for label in made}
    alone = replace(placed, traces={resource: placed.traces[resource]})
    for now in alone.moments(placed.cells):
        moment = now[resource]
        for label, model in made.items():
            peaks[label][moment.cell] = peak(model, moment)
        if (moment.cell + 1) % PROGRESS_STEPS == 0:
            watch.advance(PROGRESS_STEPS * len(made))
    return peaks


Rates = tuple[float | None, float | None]
"""Violation and severity."""


def _violations(
    placed: Placed, resource: TraceResource, models: Sequence[Model], peaks: Mapping[str, Curves], first: int
) -> dict[str, Rates]:
    last = placed.cells - DAY_CELLS
    if last <= first:
        return {model.label: (None, None) for model in models}
    came = oracle(placed.traces[resource].usage, placed.stays)
    limits = _limits(placed, resource)
    rates: dict[str, Rates] = {}
    for model in models:
        tally = PeakTally(len(placed.nodes))
        for cell in range(first, last):
            tally.add(peaks[model.label][cell].astype(np.float64), came[cell], limits[cell].astype(np.float64))
        scores = tally.scores()
        empty = not len(scores.violation)
        rates[model.label] = (None, None) if empty else (float(scores.violation.mean()), float(scores.severity.mean()))
    return rates


def _limits(placed: Placed, resource: TraceResource) -> Curves:
    limits = np.zeros((placed.cells, len(placed.nodes)), np.float32)
    alone = replace(placed, traces={resource: placed.traces[resource]})
    for now in alone.moments(placed.cells):
        limits[now[resource].cell] = now[resource].machine_limits
    return limits


def _lent(
    placed: Placed,
    choices: Sequence[Mapping[TraceResource, Choice]],
    peaks: Mapping[TraceResource, Mapping[str, Curves]],
    first: int,
    watch: SimulationProgress,
) -> tuple[list[Tally], Floats, Floats]:
    """Returns the tally of each choice, the usage of every node in every cell, and the mean requests by node."""
    nodes = len(placed.nodes)
    fillings = [
        Filling(Variant(choice[TraceResource.CPU].name, [_strategy(choice)], [{}]).decide()) for choice in choices
    ]
    tallies = [Tally(nodes) for _ in choices]
    used, requested = np.zeros((placed.cells, nodes, len(PLACES))), np.zeros((nodes, len(PLACES)))
    for cell, now in enumerate(placed.moments(placed.cells)):
        period = placed.period(now, np.zeros_like(placed.capacity))
        used[cell] = period.prod
        for place in PLACES.values():
            pods = period.known.pods
            requested[:, place] += by_machine(pods.node, pods.request[:, place].astype(np.float64), nodes)
        for choice, filling, tally in zip(choices, fillings, tallies, strict=True):
            peak = np.zeros_like(placed.capacity)
            for resource, curves in peaks.items():
                peak[:, PLACES[resource]] = curves[choice[resource].model][cell]
            step = filling.step(replace(period, known=replace(period.known, prod_peak=peak)))
            if cell >= first:
                there = period.known.capacity
                came = Came(CELL_SECONDS, period.prod, there, step.mid, step.batch, step.mid_told, step.batch_told)
                tally.add(came)
        if (cell + 1) % PROGRESS_STEPS == 0:
            watch.advance(PROGRESS_STEPS)
    cells = np.full(nodes, placed.cells) if placed.there is None else placed.there.sum(axis=0)
    return tallies, used, requested / np.maximum(1, cells)[:, None]


def _strategy(choice: Mapping[TraceResource, Choice]) -> Strategy:
    cpu, memory = (choice[resource].percent for resource in TraceResource)
    return Strategy(cpu_reclaim_threshold_percent=cpu, memory_reclaim_threshold_percent=memory)


def _judged(choice: Choice, tally: Tally, place: int, rates: Rates) -> RatedChoice:
    figures = tally.figures(place)
    return RatedChoice(
        choice=choice,
        reclaimable_share=figures.reclaimed_share,
        reclaimable_hours=figures.reclaimed_hours,
        violation=rates[0],
        severity=rates[1],
        exceeded_share=figures.exceeded_share,
        exceeded_minutes=figures.exceeded_minutes,
        longest_episode_minutes=figures.longest_episode_minutes,
        changes_per_hour=figures.changes_per_hour,
    )


def quantiles(values: Floats) -> tuple[int, int, int]:
    """Returns p50, p95 and the maximum; 0 if there are no values."""
    if not len(values):
        return 0, 0, 0
    p50, p95 = np.quantile(values, (0.5, 0.95))
    return round(float(p50)), round(float(p95)), int(values.max())


def _node(
    placed: Placed, number: int, used: Floats, requested: Floats, tallies: Mapping[TraceResource, Tally]
) -> NodeAssessed:
    shares, minutes = [0.0, 0.0], [0.0, 0.0]
    for resource, tally in tallies.items():
        place = PLACES[resource]
        hours = float(tally.capacity_hours[number, place])
        shares[place] = float(tally.reclaimed_hours[number, place]) / hours if hours else 0.0
        minutes[place] = float(tally.exceeded_minutes[number, place])
    while_there = slice(None) if placed.there is None else placed.there[:, number]
    cpu, memory = (quantiles(used[while_there, number, place]) for place in (0, 1))
    return NodeAssessed(
        name=placed.nodes[number],
        capacity=(int(placed.capacity[number, 0]), int(placed.capacity[number, 1])),
        requested=(round(float(requested[number, 0])), round(float(requested[number, 1]))),
        used=(cpu, memory),
        reclaimable_share=(shares[0], shares[1]),
        exceeded_minutes=(minutes[0], minutes[1]),
    )


def _film(tally: Tally, place: int) -> tuple[Floats, Floats, Floats]:
    prod, mid, batch, capacity = (
        np.array([part_sums[part][place] for part_sums in tally.film], np.float64) for part in range(4)
    )
    return prod, mid + batch, capacity


def warnings_of(placed: Placed, requested: Floats) -> list[str]:
    """Returns the limitations of the history that affect the figures."""
    warnings, days = [], placed.cells / DAY_CELLS
    if days < LONG_DAYS:
        kept, usual = headroom_percent(days), headroom_percent(LONG_DAYS)
        warnings.append(
            f"the history has {days:.1f} days: less than two weeks do not show weekly patterns; assess two weeks. "
            f"Until then a recommendation leaves {kept} % of a node free instead of {usual} %"
        )
    if days <= 1:
        warnings.append(
            "the history ends less than a day after the first prediction: violation and severity are unknown"
        )
    elif days <= SHORT_WARM_UP_DAYS + 1:
        warnings.append("the history is too short for a warm-up: all figures include cold starts")
    warnings += filled_notes(placed)
    for resource in placed.traces:
        over = np.flatnonzero(requested[:, PLACES[resource]] > placed.capacity[:, PLACES[resource]] * 1.01)
        if len(over):
            nodes = counted(len(over), "node has", "nodes have")
            warnings.append(f"{resource}: {nodes} requests above the capacity")
    return warnings
