"""Axes: round steps for amounts, round minutes for time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from slackwater.charts import svg
from slackwater.charts.svg import Frame, Scale

_TIME_STEPS = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


def ceiling(value: float) -> float:
    """The next number of the form 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten; at least 1."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10):
        if value <= step * power * (1 + 1e-9):
            return step * power
    return 10 * power


def ticks(high: float, wanted: int = 4) -> list[float]:
    """Round values from 0 to at most `high`, about `wanted` steps."""
    if high <= 0:
        return [0.0]
    raw = high / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * (1 - 1e-9))
    return [index * step for index in range(int(high / step + 1e-9) + 1)]


def amounts(frame: Frame, scale: Scale, label: Callable[[float], str], wanted: int = 4) -> list[str]:
    """Grid lines with their amounts on the left."""
    drawn = []
    for value in ticks(scale.high, wanted):
        y = scale(value)
        drawn.append(svg.line(frame.x0, y, frame.x1, y, "grid" if value else "base"))
        drawn.append(svg.text(frame.x0 - 8, y + 4, label(value), anchor="end"))
    return drawn


def times(since: datetime, until: datetime, most: int) -> Sequence[datetime]:
    """Round times between the two, at most `most`."""
    span = (until - since).total_seconds()
    step = next((s for s in _TIME_STEPS if span / s <= most), 86400 * math.ceil(span / 86400 / most))
    first = math.ceil(since.timestamp() / step) * step
    moments = []
    moment = datetime.fromtimestamp(first, UTC)
    while moment <= until:
        moments.append(moment)
        moment += timedelta(seconds=step)
    return moments


def time_axis(frame: Frame, scale: Scale, since: datetime, until: datetime, most: int = 6) -> list[str]:
    """Times below the plot; seconds are shown when the steps are shorter than a minute. UTC."""
    marks = times(since, until, most)
    short = len(marks) > 1 and (marks[1] - marks[0]).total_seconds() < 60
    drawn = []
    for moment in marks:
        x = scale(moment.timestamp())
        place = "end" if x > frame.x1 - 20 else "start" if x < frame.x0 + 20 else "middle"
        drawn.append(svg.line(x, frame.y0, x, frame.y0 + 4, "base"))
        drawn.append(svg.text(x, frame.y0 + 17, moment.strftime("%H:%M:%S" if short else "%H:%M"), anchor=place))
    return drawn


def days(frame: Frame, x: Scale) -> list[str]:
    """Day labels below the plot; `x` is in days after the beginning."""
    step = next(step for step in (0.25, 0.5, 1, 2, 3, 5, 7, 14, 30, 60, 10_000) if (x.high - x.low) / step <= 12)
    drawn, day = [], math.ceil(x.low / step) * step
    while day <= x.high:
        drawn.append(svg.line(x(day), frame.y0, x(day), frame.y0 + 4, "base"))
        place = "end" if x(day) > frame.x1 - 20 else "middle"
        drawn.append(svg.text(x(day), frame.y0 + 17, f"day {day:g}", anchor=place))
        day += step
    return drawn
