"""The charts of the page: risk against savings of each model, and predicted against actual peaks over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slackwater.backtest.usecases.compare import Judgement
from slackwater.backtest.usecases.judge import ORACLE, Film
from slackwater.charts import axes, rates, svg
from slackwater.charts.svg import Frame, Scale
from slackwater.traces.grouping import grouped
from slackwater.traces.options import TraceUnit
from slackwater.traces.trace import DAY_CELLS

PLANE = Frame(860, 470, left=52, right=30, top=18, bottom=44)
CURVES = Frame(860, 260, left=58, right=16, top=12, bottom=26)
ROW = 26.0
MOST_POINTS = 520
SHOWN_ROUNDING = 1e-6
"""Rounding error of single precision, as a share of the limits: films are stored as float32."""


@dataclass(frozen=True, slots=True)
class ShownModel:
    """A model with the CSS class of its colour on the page."""

    judgement: Judgement
    css: str


def plane(shown: Sequence[ShownModel], oracle: Judgement, frame: Frame = PLANE) -> str:
    """Draws violation on the x axis and savings on the y axis: the best models are in the upper left corner."""
    x = Scale(0, 1, frame.x0, frame.x1)
    best = oracle.verdict.savings.mean
    y = Scale(
        0, max(0.05, best, *(model.judgement.verdict.savings.greatest for model in shown)) * 1.08, frame.y0, frame.y1
    )
    body = axes.amounts(frame, Scale(0, y.high * 100, frame.y0, frame.y1), lambda value: f"{value:g} %", wanted=6)
    body += rates.axis(x, frame.y1, frame.y0)
    body.append(svg.text((frame.x0 + frame.x1) / 2, frame.height - 6, "violation rate", anchor="middle"))
    body.append(svg.text(frame.x0 + 6, frame.y1 - 4, "savings", "axis"))
    body.append(svg.line(frame.x0, y(best), frame.x1, y(best), "oracle rule"))
    body.append(svg.text(frame.x0 + 6, y(best) + 14, f"oracle {best:.1%}", "axis ink"))
    spots = [
        (x(rates.position(model.judgement.verdict.violation.mean)), y(model.judgement.verdict.savings.mean))
        for model in shown
    ]
    for model, (at, height) in zip(shown, spots, strict=True):
        body += _whiskers(model, x, y, at, height)
    for model, (at, height) in zip(shown, spots, strict=True):
        body.append(spot(at, height, model))
    body += rates.labels([(model.judgement.label, model.css) for model in shown], spots, frame)
    return svg.figure(frame, body, "Violation rate against savings of every model, beside the oracle")


def _whiskers(model: ShownModel, x: Scale, y: Scale, at: float, height: float) -> list[str]:
    """Lines from the minimum to the maximum over the placements."""
    risk, savings = model.judgement.verdict.violation, model.judgement.verdict.savings
    return [
        svg.line(
            x(rates.position(risk.least)), height, x(rates.position(risk.greatest)), height, f"whisker {model.css}"
        ),
        svg.line(at, y(savings.least), at, y(savings.greatest), f"whisker {model.css}"),
    ]


def spot(x: float, y: float, model: ShownModel) -> str:
    verdict = model.judgement.verdict
    title = (
        f"{model.judgement.label}: violation {verdict.violation.mean:.2%}, severity {verdict.severity.mean:.2%}, "
        f"savings {verdict.savings.mean:.1%}"
    )
    return rates.spot(x, y, model.css, title)


def curves(film: Film, machine: int, main: str, css: Mapping[str, str], unit: TraceUnit, frame: Frame = CURVES) -> str:
    """Draws one machine over the evaluated days: its usage, the perfect forecast and the forecast of each model.

    The scale fits the `main` model; higher forecasts are cut at the upper edge. Marks on the base line show where the
    main model was below the actual peak. More than MOST_POINTS cells are grouped: usage and actual peaks by maximum,
    forecasts by minimum.
    """
    count = len(film.usage)
    stride = max(1, math.ceil(count / MOST_POINTS))
    days = (film.first + np.arange(0, count, stride) + 1) / DAY_CELLS
    usage = grouped(film.usage[:, machine], stride, np.max) / unit.step
    actual = grouped(film.peaks[ORACLE][:, machine], stride, np.max) / unit.step
    forecasts = {
        label: grouped(series[:, machine], stride, np.min) / unit.step
        for label, series in film.peaks.items()
        if label != ORACLE
    }
    high = 1.1 * max(float(values.max()) for values in (usage, actual, forecasts[main]))
    x = Scale(float(days[0]), float(days[-1]), frame.x0, frame.x1)
    y = Scale(0, axes.ceiling(high) if high > 1 else max(high, 1e-9), frame.y0, frame.y1)
    body = axes.amounts(frame, y, lambda value: f"{value:g}")
    along = [(x(day), y(value)) for day, value in zip(days, usage, strict=True)]
    body.append(svg.polygon([(along[0][0], frame.y0), *along, (along[-1][0], frame.y0)], "use"))
    body.append(_line(days, actual, x, y, "curve oracle"))
    for label, values in forecasts.items():
        body.append(_line(days, values, x, y, f"curve {css[label]}", label))
    body += _misses(frame, x, film, machine, main)
    body += axes.days(frame, x)
    return svg.figure(frame, body, f"Machine {machine}: forecast and actual peaks, {unit.name} over days")


def _misses(frame: Frame, x: Scale, film: Film, machine: int, main: str) -> list[str]:
    """Draws a bar below the plot for every unbroken series of violations. Checks every cell, not only drawn points."""
    short = film.peaks[ORACLE][:, machine] > film.peaks[main][:, machine] + SHOWN_ROUNDING * film.limits[:, machine]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], short, [False]]).astype(np.int8)))
    ends = [x((film.first + edge + 1) / DAY_CELLS) for edge in edges.tolist()]
    return [
        svg.rect(begin, frame.y0, max(end - begin, 1.5), 4, "miss", "forecast too low")
        for begin, end in zip(ends[::2], ends[1::2], strict=True)
    ]


def _line(days: NDArray[np.float64], values: NDArray[np.float64], x: Scale, y: Scale, css: str, title: str = "") -> str:
    return svg.polyline([(x(day), y(value)) for day, value in zip(days, values, strict=True)], css, title or None)


def risk_boxes(shown: Sequence[ShownModel]) -> str:
    """Draws the violation rates over machines, one row per model."""
    frame = _boxes_frame(shown)
    x = Scale(0, 1, frame.x0, frame.x1)
    body = rates.axis(x, 4, frame.y0)
    for row, model in enumerate(shown):
        spread = model.judgement.verdict.violation_by_machine
        values = np.concatenate([scores.violation for scores in model.judgement.placements])
        at = [x(rates.position(value)) for value in (spread.p10, spread.p50, spread.p90, spread.worst)]
        title = f"{model.judgement.label}: p50 {spread.p50:.2%}, p90 {spread.p90:.2%}, worst {spread.worst:.2%}"
        body += _box(frame, model, row, at, [x(rates.position(float(value))) for value in values], title)
    return svg.figure(frame, body, "Violation rate by machine, for each model")


def savings_boxes(shown: Sequence[ShownModel]) -> str:
    """Draws the savings over machines, one row per model."""
    frame = _boxes_frame(shown)
    rows = [np.concatenate([scores.savings for scores in model.judgement.placements]) for model in shown]
    low, high = min(0.0, *(float(row.min()) for row in rows)), max(0.05, *(float(row.max()) for row in rows))
    x = Scale(low, high * 1.02, frame.x0, frame.x1)
    body = []
    for value in axes.ticks(x.high * 100, 6):
        tick = x(value / 100)
        body.append(svg.line(tick, 4, tick, frame.y0, "grid" if value else "base"))
        body.append(svg.text(tick, frame.y0 + 16, f"{value:g} %", anchor="middle"))
    for row, (model, values) in enumerate(zip(shown, rows, strict=True)):
        spread = model.judgement.verdict.savings_by_machine
        at = [x(value) for value in (spread.p10, spread.p50, spread.p90, spread.worst)]
        title = f"{model.judgement.label}: p10 {spread.p10:.1%}, p50 {spread.p50:.1%}, p90 {spread.p90:.1%}"
        body += _box(frame, model, row, at, [x(float(value)) for value in values], title)
    return svg.figure(frame, body, "Savings by machine, for each model")


def _boxes_frame(shown: Sequence[ShownModel]) -> Frame:
    names = max(len(model.judgement.label) for model in shown) * rates.LETTER_WIDTH
    return Frame(860, len(shown) * ROW + 34, left=min(names + 20, 430), right=24, top=4, bottom=26)


MOST_DOTS = 240


def _box(
    frame: Frame, model: ShownModel, row: int, at: Sequence[float], dots: Sequence[float], title: str
) -> list[str]:
    """Draws a dot per machine, a bar from p10 to p90 and a line at the median."""
    middle = 4 + row * ROW + ROW / 2
    p10, p50, p90, _ = at
    drawn = [svg.text(frame.x0 - 12, middle + 4, model.judgement.label, f"axis name {model.css}", "end")]
    drawn.append(svg.rect(min(p10, p90), middle - 5, max(abs(p90 - p10), 1), 10, f"box {model.css}", title, radius=3))
    step = max(1, math.ceil(len(dots) / MOST_DOTS))
    places = sorted({round(dot, 1) for dot in sorted(dots)[::step]} | {round(min(dots), 1), round(max(dots), 1)})
    drawn += [
        f'<circle cx="{svg.number(dot)}" cy="{svg.number(middle)}" r="1.7" class="dot {model.css}"/>' for dot in places
    ]
    drawn.append(svg.line(p50, middle - 8, p50, middle + 8, f"median {model.css}"))
    return drawn
