"""The distribution of durations: one row per stage, a histogram on a logarithmic axis, p50 and p99 marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.charts import svg
from slackwater.charts.svg import Frame, Scale
from slackwater.charts.units import seconds

LOW, HIGH = 0.001, 100.0
"""Seconds at the ends of the axis; values outside are drawn at the edge."""
BINS = 60
_TICKS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
ROW, HEADING = 46.0, 17.0


@dataclass(frozen=True, slots=True)
class DurationSpread:
    """The distribution of a stage's durations; percentiles are None without durations."""

    name: str
    title: str
    values: tuple[float, ...]

    @property
    def p50(self) -> float | None:
        return percentile(self.values, 0.50)

    @property
    def p99(self) -> float | None:
        return percentile(self.values, 0.99)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The nearest rank: the least value that at least this share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def height_of(rows: int) -> float:
    """The height of a chart with this many rows, its axis included."""
    return rows * (ROW + HEADING) + 22


def position(value: float) -> float:
    """The position along the logarithmic axis, 0..1."""
    held = min(max(value, LOW), HIGH)
    return (math.log10(held) - math.log10(LOW)) / (math.log10(HIGH) - math.log10(LOW))


def bins(values: Sequence[float]) -> list[int]:
    """The number of durations in each of BINS equal parts of the axis; values outside count at the edges."""
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int(position(value) * BINS))] += 1
    return counts


def latency_chart(frame: Frame, spreads: Sequence[DurationSpread], label: str) -> str:
    """One histogram per row, each with its own height scale, because the shape matters and not the number."""
    x = Scale(0, 1, frame.x0, frame.x1)
    bottom = frame.height - 20
    body = []
    for tick in _TICKS:
        at = x(position(tick))
        body.append(svg.line(at, 0, at, bottom, "grid"))
        anchor = "start" if tick == _TICKS[0] else "end" if tick == _TICKS[-1] else "middle"
        body.append(svg.text(at, bottom + 15, seconds(tick), anchor=anchor))
    for index, spread in enumerate(spreads):
        top = index * (ROW + HEADING) + HEADING
        body += _row(frame, x, spread, top)
    return svg.figure(frame, body, label)


def _row(frame: Frame, x: Scale, spread: DurationSpread, top: float) -> list[str]:
    counts, base = bins(spread.values), top + ROW - 8
    highest = max(counts) or 1
    drawn = [svg.text(frame.x0, top - 5, spread.title, "axis ink"), svg.line(frame.x0, base, frame.x1, base, "base")]
    for number, count in enumerate(counts):
        if count:
            height = max(2.0, (ROW - 14) * count / highest)
            left, right = x(number / BINS), x((number + 1) / BINS)
            title = f"{count} between {seconds(_edge(number))} and {seconds(_edge(number + 1))}"
            drawn.append(svg.rect(left, base - height, max(1.0, right - left - 1), height, "bar spread", title))
    if spread.p50 is None or spread.p99 is None:
        return [*drawn, svg.text(frame.x1, top - 5, "nothing measured", "axis", "end")]
    for name, value in (("p50", spread.p50), ("p99", spread.p99)):
        at = x(position(value))
        drawn.append(svg.line(at, top, at, base, f"quantile {name}"))
    said = f"p50 {seconds(spread.p50)}   p99 {seconds(spread.p99)}"
    return [*drawn, svg.text(frame.x1, top - 5, said, "axis ink", "end")]


def _edge(number: int) -> float:
    return float(10 ** (math.log10(LOW) + number / BINS * (math.log10(HIGH) - math.log10(LOW))))
