"""The charts of policies: the worst node against its waterlines over time, throttle-seconds by hour, evictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from slackwater.charts import axes, svg
from slackwater.charts.svg import Frame, Scale
from slackwater.simulation.domain.guard_tally import TalliedWaterline
from slackwater.simulation.ports import SceneHistory
from slackwater.simulation.usecases.replay_policies import GuardReplayed
from slackwater.traces.grouping import grouped
from slackwater.waterline.registry.metric import Dimension

MOST_POINTS, MOST_BARS = 520, 260
FRAME = Frame(860, 250, left=64, right=16, top=14, bottom=26)
DAY_SECONDS = 86_400.0
BANDS = (1, 3, 6, 12, 24, 48, 168)
"""Possible widths of one group of bars, in hours."""


@dataclass(frozen=True, slots=True)
class ShownPolicy:
    """A policy with the CSS class of its colour on the page."""

    name: str
    css: str
    replayed: GuardReplayed


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric on the node that was above one of its waterlines for longest, under all policies."""

    metric: str
    dimension: Dimension
    node: int
    places: Sequence[int]
    """Indices of the waterlines of this metric."""


def curves(shown: Sequence[ShownPolicy], dimension_of: Callable[[str], Dimension]) -> list[Curve]:
    """Returns one curve per metric with readings."""
    waterlines = shown[0].replayed.tally.waterlines
    found = []
    for metric in dict.fromkeys(waterline.metric for waterline in waterlines):
        places = [place for place, one in enumerate(waterlines) if one.metric == metric]
        node = _worst(shown, places)
        if node is not None:
            found.append(Curve(metric, dimension_of(metric), node, places))
    return found


def _worst(shown: Sequence[ShownPolicy], places: Sequence[int]) -> int | None:
    """Returns the node that was above any of these waterlines for longest under any policy; None without readings."""
    nodes = range(len(shown[0].replayed.tally.nodes))
    tallies = [one.replayed.tally for one in shown]
    known = [node for node in nodes if any(tallies[0].nodes[node].waterlines[place].known_ms for place in places)]
    if not known:
        return None
    return max(
        known,
        key=lambda node: (
            max(tally.nodes[node].waterlines[place].above_ms for tally in tallies for place in places),
            -node,
        ),
    )


def over_time(history: SceneHistory, shown: Sequence[ShownPolicy], curve: Curve) -> str:
    """Draws the mean of each sample (the maximum of the samples at one point), with waterlines as dotted lines."""
    scale, unit = _unit(curve.dimension)
    films = [_of_node(one.replayed, curve) * scale for one in shown]
    stride = max(1, math.ceil(len(films[0]) / MOST_POINTS))
    drawn = [grouped(film, stride, _most) for film in films]
    lines = [shown[0].replayed.tally.waterlines[place] for place in curve.places]
    levels = [float(line.value) * scale for line in lines]
    known = [float(np.nanmax(each)) for each in drawn if not np.isnan(each).all()]
    high = max([*known, *levels, 1e-9]) * 1.06
    y = Scale(0, high, FRAME.y0, FRAME.y1)
    x = Scale(0, len(films[0]), FRAME.x0, FRAME.x1)
    body = axes.amounts(FRAME, y, lambda value: f"{value:g}{unit}", wanted=5)
    for one, values in zip(shown, drawn, strict=True):
        for run in _runs(values):
            at = [(x((place + 0.5) * stride), y(float(values[place]))) for place in run]
            body.append(svg.polyline(at, f"curve {one.css}", one.name))
    for number, (drawn_at, level) in enumerate(zip(lines, levels, strict=True)):
        at_level, aside = y(level), FRAME.x1 - 4 - 130 * (number % 5)
        body.append(svg.line(FRAME.x0, at_level, FRAME.x1, at_level, "oracle rule"))
        body.append(svg.text(aside, at_level - 4, policy_text(drawn_at, curve.dimension), "axis ink", "end"))
    body += _time_axis(history)
    return svg.figure(FRAME, body, f"{curve.metric} of {history.nodes[curve.node].name} under each policy")


def policy_text(waterline: TalliedWaterline, dimension: Dimension) -> str:
    scale, unit = _unit(dimension)
    return f"waterline {float(waterline.value) * scale:g}{unit}"


def _unit(dimension: Dimension) -> tuple[float, str]:
    """Returns the factor of a reading and the unit after it."""
    match dimension:
        case Dimension.RATIO:
            return 100.0, " %"
        case Dimension.CPU:
            return 0.001, " cores"
        case Dimension.MEMORY:
            return 2.0**-30, " GiB"
    return 1.0, ""


def _of_node(replayed: GuardReplayed, curve: Curve) -> NDArray[np.float64]:
    return np.array([scene[curve.places[0], curve.node] for scene in replayed.tally.film], np.float64)


def _most(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the maximum of each group; NaN for groups without readings."""
    return np.asarray(np.fmax.reduce(values), np.float64)


def _runs(values: NDArray[np.float64]) -> list[list[int]]:
    """Returns runs of consecutive indices with readings."""
    found: list[list[int]] = [[]]
    for place, value in enumerate(values):
        if np.isnan(value):
            found.append([])
        else:
            found[-1].append(place)
    return [run for run in found if run]


def by_hour(history: SceneHistory, shown: Sequence[ShownPolicy], hours: int) -> str:
    """Draws throttle-seconds of all pods per `hours`, one bar per policy, with a mark above bars with evictions."""
    sums = [_banded(history, policy.replayed.tally.limited_seconds, hours) for policy in shown]
    evicted = [_banded(history, policy.replayed.tally.evictions, hours) for policy in shown]
    high = max(1.0, *(float(values.max()) for values in sums))
    y = Scale(0, axes.ceiling(high), FRAME.y0, FRAME.y1 + 12)
    body = axes.amounts(FRAME, y, lambda value: f"{value:,g}")
    slot = (FRAME.x1 - FRAME.x0) / len(sums[0])
    width = slot * 0.86 / len(shown)
    for number, (policy, values, gone) in enumerate(zip(shown, sums, evicted, strict=True)):
        for band, (value, count) in enumerate(zip(values, gone, strict=True)):
            left, top = FRAME.x0 + band * slot + number * width, y(float(value))
            if value:
                title = f"{policy.name}: {value:,.0f} throttle-seconds"
                body.append(svg.rect(left, top, max(width, 0.6), FRAME.y0 - top, f"mark {policy.css}", title))
            if count:
                title = f"{policy.name}: {count:g} evicted"
                middle = left + width / 2
                body.append(
                    svg.polygon(
                        [(middle - 4, top - 9), (middle + 4, top - 9), (middle, top - 2)], f"mark {policy.css}", title
                    )
                )
    body += _time_axis(history)
    return svg.figure(FRAME, body, f"Throttle-seconds and evictions in every {hours} hours under each policy")


def hours_of(history: SceneHistory) -> int:
    """Returns the width of one group of bars in hours."""
    whole = history.steps * history.period_seconds / 3600
    return next((hours for hours in BANDS if whole / hours <= MOST_BARS), BANDS[-1])


def _banded(history: SceneHistory, values: Sequence[float], hours: int) -> NDArray[np.float64]:
    stride = max(1, round(hours * 3600 / history.period_seconds))
    return grouped(np.array(values, np.float64), stride, np.sum)


def _time_axis(history: SceneHistory) -> list[str]:
    """Draws the time of day for short histories, days since the start for long ones."""
    first = history.start_seconds
    last = first + history.steps * history.period_seconds
    if last - first <= 3 * DAY_SECONDS and first > 365 * DAY_SECONDS:
        since, until = (datetime.fromtimestamp(at, UTC) for at in (first, last))
        return axes.time_axis(FRAME, Scale(first, last, FRAME.x0, FRAME.x1), since, until)
    return axes.days(FRAME, Scale(0, (last - first) / DAY_SECONDS, FRAME.x0, FRAME.x1))
