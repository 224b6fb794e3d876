"""What could be lent, and at which risk: every model predicts as time goes by, and every margin lends what it leaves.

Nothing is ever judged on what it was trained with: at each cell a model has seen what was before, is asked for the next
24 hours, and is compared with what then came (see slackwater.backtest). Offers are made by the functions that make
them in service, and filled to the last unit.
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
from slackwater.simulation.domain.risk import Advice, Choice, RatedChoice, advise
from slackwater.simulation.domain.tally import Came, Tally
from slackwater.simulation.ports import SimulationProgress
from slackwater.simulation.usecases.placed_usage import PLACES, Floats, Placed, filled_notes, peak
from slackwater.simulation.usecases.replay import TOLD_EVERY, Variant
from slackwater.traces.moments import by_machine
from slackwater.traces.options import TraceResource
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS

Curves = NDArray[np.float32]
USUAL_PERCENT: Mapping[TraceResource, int] = {TraceResource.CPU: 60, TraceResource.MEMORY: 65}
LONG_DAYS, WARM_UP_DAYS, SHORT_WARM_UP_DAYS = 14, 8, 2


@dataclass(frozen=True, slots=True)
class Model:
    """A model of peaks under the name it is shown with."""

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
    """Of its capacity, as advised (the usual way where nothing is advised)."""
    exceeded_minutes: tuple[float, float]


@dataclass(frozen=True, slots=True)
class ResourceAssessed:
    """One resource of all nodes together."""

    capacity: int
    requested: int
    used: tuple[int, int, int]
    """p50, p95 and the maximum of the sum over all nodes."""
    judged: Sequence[RatedChoice]
    """The usual way first."""
    advice: Advice | None


@dataclass(frozen=True, slots=True)
class Assessment:
    """The whole answer."""

    placed: Placed
    first: int
    """The first cell that counts; before it models only learn."""
    accepted: float
    resources: Mapping[TraceResource, ResourceAssessed]
    nodes: Sequence[NodeAssessed]
    warnings: Sequence[str]
    film: Mapping[TraceResource, tuple[Floats, Floats, Floats]]
    """(cells that count,) of all nodes: used, offered as advised, capacity."""


def assess(
    placed: Placed, models: Sequence[Model], percents: Sequence[int], accepted: float, watch: SimulationProgress
) -> Assessment:
    """The first of `models` is judged with every one of `percents`, the others with the usual margin."""
    first = _first(placed.cells)
    choices = choices_of(models, percents)
    watch.begin("predicting", placed.cells * len(models) * len(placed.traces))
    peaks = {each: _predicted(placed, each, models, watch) for each in placed.traces}
    watch.begin("lending", placed.cells)
    tallies, used, requested = _lent(placed, choices, peaks, first, watch)
    warnings = [*placed.notes, *warnings_of(placed, requested)]
    cautious = _cautious(placed.cells)
    somebody = slice(None) if placed.there is None else placed.there.any(axis=1)
    resources, of_nodes, film = {}, [], {}
    for each in placed.traces:
        place, whole = PLACES[each], _violations(placed, each, models, peaks[each], first)
        judged = [
            _judged(choice[each], tally, place, whole[choice[each].model])
            for choice, tally in zip(choices, tallies, strict=True)
        ]
        advice = advise(judged, accepted, cautious=cautious)
        chosen = next((n for n, one in enumerate(judged) if advice and one.choice == advice.choice), 0)
        total = used[somebody, :, place].sum(axis=1)
        resources[each] = ResourceAssessed(
            capacity=int(placed.capacity[:, place].sum()),
            requested=int(requested[:, place].sum()),
            used=quantiles(total),
            judged=judged,
            advice=advice,
        )
        of_nodes.append(tallies[chosen])
        film[each] = _film(tallies[chosen], place)
    tally_of = dict(zip(placed.traces, of_nodes, strict=True))
    nodes = [_node(placed, number, used, requested, tally_of) for number in range(len(placed.nodes))]
    return Assessment(placed, first, accepted, resources, nodes, warnings, film)


def choices_of(models: Sequence[Model], percents: Sequence[int]) -> list[dict[TraceResource, Choice]]:
    """What is tried, the usual way first; a percentage counts for both resources."""
    main = models[0].label
    found = [{each: Choice(USUAL_PERCENT[each], main) for each in TraceResource}]
    found += [{each: Choice(percent, main) for each in TraceResource} for percent in percents]
    return found + [{each: Choice(USUAL_PERCENT[each], model.label) for each in TraceResource} for model in models[1:]]


def _first(cells: int) -> int:
    """Eight days are learned from where there are two weeks, else two days, where there are more than three."""
    days = cells / DAY_CELLS
    if days >= LONG_DAYS:
        return WARM_UP_DAYS * DAY_CELLS
    return SHORT_WARM_UP_DAYS * DAY_CELLS if days > SHORT_WARM_UP_DAYS + 1 else 0


def _cautious(cells: int) -> str:
    days = cells / DAY_CELLS
    return f"{days:.1f} days are too short to judge a bolder way" if days < 7 else ""


def _predicted(
    placed: Placed, resource: TraceResource, models: Sequence[Model], watch: SimulationProgress
) -> dict[str, Curves]:
    """(cells, nodes) of each model: what it said at the end of each cell."""
    made = {model.label: model.make(resource) for model in models}
    found = {label: np.zeros((placed.cells, len(placed.nodes)), np.float32) for label in made}
    alone = replace(placed, traces={resource: placed.traces[resource]})
    for now in alone.moments(placed.cells):
        moment = now[resource]
        for label, model in made.items():
            found[label][moment.cell] = peak(model, moment)
        if (moment.cell + 1) % TOLD_EVERY == 0:
            watch.advance(TOLD_EVERY * len(made))
    return found


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
    found: dict[str, Rates] = {}
    for model in models:
        tally = PeakTally(len(placed.nodes))
        for cell in range(first, last):
            tally.add(peaks[model.label][cell].astype(np.float64), came[cell], limits[cell].astype(np.float64))
        scores = tally.scores()
        empty = not len(scores.violation)
        found[model.label] = (None, None) if empty else (float(scores.violation.mean()), float(scores.severity.mean()))
    return found


def _limits(placed: Placed, resource: TraceResource) -> Curves:
    found = np.zeros((placed.cells, len(placed.nodes)), np.float32)
    alone = replace(placed, traces={resource: placed.traces[resource]})
    for now in alone.moments(placed.cells):
        found[now[resource].cell] = now[resource].machine_limits
    return found


def _lent(
    placed: Placed,
    choices: Sequence[Mapping[TraceResource, Choice]],
    peaks: Mapping[TraceResource, Mapping[str, Curves]],
    first: int,
    watch: SimulationProgress,
) -> tuple[list[Tally], Floats, Floats]:
    """What became of each choice; what every node used in every cell; what was requested of it on the mean."""
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
            said = np.zeros_like(placed.capacity)
            for each, curves in peaks.items():
                said[:, PLACES[each]] = curves[choice[each].model][cell]
            step = filling.step(replace(period, known=replace(period.known, prod_peak=said)))
            if cell >= first:
                there = period.known.capacity
                came = Came(CELL_SECONDS, period.prod, there, step.mid, step.batch, step.mid_told, step.batch_told)
                tally.add(came)
        if (cell + 1) % TOLD_EVERY == 0:
            watch.advance(TOLD_EVERY)
    cells = np.full(nodes, placed.cells) if placed.there is None else placed.there.sum(axis=0)
    return tallies, used, requested / np.maximum(1, cells)[:, None]


def _strategy(choice: Mapping[TraceResource, Choice]) -> Strategy:
    cpu, memory = (choice[each].percent for each in TraceResource)
    return Strategy(cpu_reclaim_threshold_percent=cpu, memory_reclaim_threshold_percent=memory)


def _judged(choice: Choice, tally: Tally, place: int, rates: Rates) -> RatedChoice:
    found = tally.figures(place)
    return RatedChoice(
        choice=choice,
        reclaimable_share=found.reclaimed_share,
        reclaimable_hours=found.reclaimed_hours,
        violation=rates[0],
        severity=rates[1],
        exceeded_share=found.exceeded_share,
        exceeded_minutes=found.exceeded_minutes,
        longest_episode_minutes=found.longest_episode_minutes,
        changes_per_hour=found.changes_per_hour,
    )


def quantiles(values: Floats) -> tuple[int, int, int]:
    """p50, p95 and the maximum; of nothing, 0."""
    if not len(values):
        return 0, 0, 0
    p50, p95 = np.quantile(values, (0.5, 0.95))
    return round(float(p50)), round(float(p95)), int(values.max())


def _node(
    placed: Placed, number: int, used: Floats, requested: Floats, tallies: Mapping[TraceResource, Tally]
) -> NodeAssessed:
    shares, minutes = [0.0, 0.0], [0.0, 0.0]
    for each, tally in tallies.items():
        place = PLACES[each]
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
    prod, mid, batch, capacity = (np.array([each[part][place] for each in tally.film], np.float64) for part in range(4))
    return prod, mid + batch, capacity


def warnings_of(placed: Placed, requested: Floats) -> list[str]:
    """What makes the figures less than they seem."""
    found, days = [], placed.cells / DAY_CELLS
    if days < LONG_DAYS:
        found.append(f"the history has {days:.1f} days: less than two weeks show no week's rhythm")
    if days <= 1:
        found.append("no day lies after a prediction: violation and severity cannot be said")
    elif days <= SHORT_WARM_UP_DAYS + 1:
        found.append("nothing was left to learn from first: cold starts are in all figures")
    found += filled_notes(placed)
    for each in placed.traces:
        over = np.flatnonzero(requested[:, PLACES[each]] > placed.capacity[:, PLACES[each]] * 1.01)
        if len(over):
            whose = counted(len(over), "node has more requests than it", "nodes have more requests than they")
            found.append(f"{each}: {whose} can give")
    return found
