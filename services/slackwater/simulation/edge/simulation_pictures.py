"""The charts of a simulation: offers and usage over time, shares of the capacity, and risk against lent share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from slackwater.charts import axes, rates, svg
from slackwater.charts.svg import Frame, Scale
from slackwater.simulation.domain.tally import Figures, Floats
from slackwater.simulation.ports import History
from slackwater.simulation.usecases.replay import Replayed
from slackwater.traces.grouping import grouped
from slackwater.traces.options import UNITS, TraceResource, TraceUnit

MOST_POINTS = 520
CURVES = Frame(860, 270, left=64, right=16, top=12, bottom=26)
PLANE = Frame(860, 360, left=52, right=30, top=18, bottom=44)
ROW, LANE = 34.0, 9.0
DAY_SECONDS = 86_400.0
By = Callable[..., NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class ShownStrategy:
    """A strategy with the CSS class of its colour on the page."""

    name: str
    css: str
    replayed: Replayed

    def figures(self, resource: TraceResource) -> Figures:
        return self.replayed.tally.figures(place_of(resource))


def place_of(resource: TraceResource) -> int:
    return list(TraceResource).index(resource)


def over_time(history: History, shown: Sequence[ShownStrategy], resource: TraceResource) -> str:
    """Draws, over all nodes, usage of prod and the offers of each strategy on top. Lanes below show when any node would
    have exceeded its capacity."""
    place, unit = place_of(resource), UNITS[resource]
    first = shown[0].replayed.tally.film
    stride = max(1, math.ceil(len(first) / MOST_POINTS))
    frame = Frame(CURVES.width, CURVES.height + LANE * len(shown), CURVES.left, CURVES.right, CURVES.top, 30)
    lanes = LANE * len(shown)
    prod, capacity = (_series([each[part][place] for each in first], stride, unit, np.max) for part in (0, 3))
    along = [(one, _filled(one, place, stride, unit)) for one in shown]
    high = max(float(values.max()) for values in (capacity, *(values for _, values in along)))
    x = _time(history, frame)
    y = Scale(0, axes.ceiling(high) if high > 1 else max(high, 1e-9), frame.y0 - lanes, frame.y1)
    at = [x(when) for when in _moments(history, len(prod), stride)]
    inner = Frame(frame.width, frame.height, frame.left, frame.right, frame.top, frame.bottom + lanes)
    body = axes.amounts(inner, y, lambda value: f"{value:,g}")
    heights = [y(value) for value in prod]
    body.append(svg.polygon([(at[0], inner.y0), *zip(at, heights, strict=True), (at[-1], inner.y0)], "use"))
    body.append(svg.polyline([(p, y(v)) for p, v in zip(at, capacity, strict=True)], "curve oracle", "capacity"))
    for one, values in along:
        body.append(svg.polyline([(p, y(v)) for p, v in zip(at, values, strict=True)], f"curve {one.css}", one.name))
    for row, one in enumerate(shown):
        body += _lane(one, place, at, stride, inner.y0 + 2 + row * LANE)
    body += _time_axis(history, frame, x)
    return svg.figure(frame, body, f"{resource.upper()} of all nodes: usage of prod and offers on top, {unit.name}")


def _filled(strategy: ShownStrategy, place: int, stride: int, unit: TraceUnit) -> Floats:
    film = strategy.replayed.tally.film
    return _series([each[0][place] + each[1][place] + each[2][place] for each in film], stride, unit, np.max)


def _series(values: Sequence[np.int64], stride: int, unit: TraceUnit, by: By) -> Floats:
    return grouped(np.array(values, np.float64), stride, by) / unit.step


def _moments(history: History, count: int, stride: int) -> Sequence[float]:
    return [history.start_seconds + (number * stride + 1) * history.period_seconds for number in range(count)]


def _lane(strategy: ShownStrategy, place: int, at: Sequence[float], stride: int, top: float) -> list[str]:
    exceeded = np.array([counts[place] for counts in strategy.replayed.tally.film_exceeded], np.float64)
    beyond = grouped(exceeded, stride, np.max)
    width = max(1.5, at[1] - at[0]) if len(at) > 1 else 3.0
    drawn = [svg.rect(at[0], top, max(at[-1] - at[0], 1), LANE - 4, "lane")]
    drawn += [
        svg.rect(
            place_,
            top,
            width,
            LANE - 4,
            f"mark {strategy.css}",
            f"{strategy.name}: {count:g} nodes beyond their capacity",
        )
        for place_, count in zip(at, beyond, strict=True)
        if count
    ]
    return drawn


def _time(history: History, frame: Frame) -> Scale:
    first = history.start_seconds
    last = first + (history.steps - history.first) * history.period_seconds
    return Scale(first, last, frame.x0, frame.x1)


def _time_axis(history: History, frame: Frame, x: Scale) -> list[str]:
    """Draws the time of day for short histories, days since the start for long ones."""
    if x.high - x.low <= 3 * DAY_SECONDS and x.low > 365 * DAY_SECONDS:
        since, until = (datetime.fromtimestamp(at, UTC) for at in (x.low, x.high))
        return axes.time_axis(frame, x, since, until)
    before = history.first * history.period_seconds / DAY_SECONDS
    length = (x.high - x.low) / DAY_SECONDS
    return axes.days(frame, Scale(before, before + length, x.start, x.end))


def shares(shown: Sequence[ShownStrategy], resource: TraceResource) -> str:
    """Draws one bar per strategy with the shares of the capacity: used by prod, lent to mid, lent to batch, free."""
    frame = Frame(860, len(shown) * ROW + 30, left=180, right=24, top=4, bottom=26)
    x = Scale(0, 1, frame.x0, frame.x1)
    body = []
    for percent in range(0, 101, 20):
        at = x(percent / 100)
        body.append(svg.line(at, 4, at, frame.y0, "grid" if percent else "base"))
        body.append(svg.text(at, frame.y0 + 16, f"{percent} %", anchor="middle"))
    for row, strategy in enumerate(shown):
        figures, top, left = strategy.figures(resource), 4 + row * ROW + 6, 0.0
        body.append(svg.text(frame.x0 - 12, top + 15, strategy.name, f"axis name {strategy.css}", "end"))
        for hours, css, what in (
            (figures.prod_hours, "use", "used by prod"),
            (figures.mid_hours, f"mid {strategy.css}", "offered to mid"),
            (figures.batch_hours, f"lent {strategy.css}", "offered to batch"),
        ):
            share = hours / figures.capacity_hours if figures.capacity_hours else 0.0
            body.append(
                svg.rect(x(left), top, x(left + share) - x(left), 22, css, f"{strategy.name}: {share:.1%} {what}")
            )
            left += share
        label = f"{figures.reclaimed_share:.1%} lent"
        body.append(svg.text(min(x(left) + 8, frame.x1 - 70), top + 15, label, "axis ink"))
    return svg.figure(frame, body, f"{resource.upper()}: shares of the capacity under each strategy")


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of the chart; risk and lent amount are shares."""

    name: str
    css: str
    risk: float
    lent: float
    title: str


def plane(shown: Sequence[ShownStrategy], resources: Sequence[TraceResource]) -> str:
    """Draws the share of node minutes beyond capacity on the x axis and the lent share on the y axis."""
    spots = []
    for one, each in ((one, resource) for one in shown for resource in resources):
        found = one.figures(each)
        title = f"{one.name}, {each}: {found.exceeded_share:.3%} beyond capacity, {found.reclaimed_share:.1%} lent"
        spots.append(Spot(f"{one.name}, {each}", one.css, found.exceeded_share, found.reclaimed_share, title))
    return risk_plane(
        spots,
        "share of the capacity that was lent",
        "Minutes beyond capacity against what was lent, for each strategy and resource",
    )


def risk_plane(spots: Sequence[Spot], upwards: str, label: str, frame: Frame = PLANE) -> str:
    """Draws labelled points with risk on a logarithmic axis and the lent share on a linear one."""
    x = Scale(0, 1, frame.x0, frame.x1)
    high = max(0.05, *(spot.lent for spot in spots)) * 1.12
    y = Scale(0, high, frame.y0, frame.y1)
    body = axes.amounts(frame, Scale(0, high * 100, frame.y0, frame.y1), lambda value: f"{value:g} %", wanted=5)
    body += rates.axis(x, frame.y1, frame.y0)
    middle = (frame.x0 + frame.x1) / 2
    body.append(svg.text(middle, frame.height - 6, "share of node minutes beyond capacity", anchor="middle"))
    body.append(svg.text(frame.x0 + 6, frame.y1 - 4, upwards, "axis"))
    places = [(x(rates.position(spot.risk)), y(spot.lent)) for spot in spots]
    body += [rates.spot(*place, spot.css, spot.title) for spot, place in zip(spots, places, strict=True)]
    body += rates.labels([(spot.name, spot.css) for spot in spots], places, frame)
    return svg.figure(frame, body, label)
