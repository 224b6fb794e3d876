"""The picture of a scene, drawn from its declaration: bars of every turn, lines over the seconds of the last turns.

It stands alone (its own colours, light and dark), so that a README and the console can show it. Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from slackwater.charts.svg import Point, Scale, line, number, polyline, rect, text
from slackwater.demo.report import Turn, cell
from slackwater.demo.scene import DemoScene, Series, TurnFigure

WIDTH, LEFT, RIGHT, ROW, LINES = 840.0, 190.0, 110.0, 22.0, 130.0
_FACTOR: Final = 20
"""Between the smallest and the largest value, from which a scale is logarithmic."""
STYLE: Final = """
 text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #57606a }
 .title { font-size: 14px; font-weight: 600 } .ground { fill: #ffffff }
 .without { fill: #cf222e } .with { fill: #1a7f37 } .third { fill: #8250df }
 polyline { stroke-width: 2 } polyline.without { stroke: #cf222e; fill: none } polyline.with { stroke: #1a7f37;
 fill: none } polyline.third { stroke: #8250df; fill: none } .axis { stroke: #8c959f }
 .limit { stroke: #9a6700; stroke-dasharray: 5 3 }
 @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .ground { fill: #0d1117 }
 .without { fill: #ff7b72 } .with { fill: #56d364 } .third { fill: #a371f7 } polyline.without { stroke: #ff7b72 }
 polyline.with { stroke: #56d364 } polyline.third { stroke: #a371f7 } }
"""


def picture(scene: DemoScene[Any], turns: Sequence[Turn[Any]]) -> str:
    """Returns the SVG of a scene that took these turns."""
    parts, y = [text(10, 22, scene.title, "title")], 46.0
    for series in scene.series:
        parts += _lines(scene, series, turns, y)
        y += LINES + 62
    for column in scene.columns:
        if column.goal:
            parts += _bars(scene, column, turns, y)
            y += ROW * (len(turns) + 1) + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(WIDTH)} {number(y)}" role="img" '
        f'aria-label="{scene.name}"><style>{STYLE}</style>{rect(0, 0, WIDTH, y, "ground")}{"".join(parts)}</svg>\n'
    )


def _css(scene: DemoScene[Any], variant: str) -> str:
    return dict(zip(scene.compared, ("without", "with"), strict=True)).get(variant, "third")


def _grouped(scene: DemoScene[Any], turns: Sequence[Turn[Any]]) -> list[Turn[Any]]:
    return [turn for variant in scene.variants for turn in turns if turn.variant == variant.name]


def _bars(scene: DemoScene[Any], column: TurnFigure[Any], turns: Sequence[Turn[Any]], y: float) -> list[str]:
    """A row per turn, grouped by variant."""
    values = [(turn, column.value(turn.record)) for turn in _grouped(scene, turns)]
    numbers = [float(value) for _, value in values if isinstance(value, int | float)]
    length, _, kind = _scale(numbers, 0, WIDTH - LEFT - RIGHT)
    unit = f", {column.unit}" if column.unit else ""
    parts = [text(10, y + 12, f"{column.heading}{unit}{kind}: {column.goal} is better", "")]
    for place, (turn, value) in enumerate(values, 1):
        width = length(float(value)) if isinstance(value, int | float) else 0.0
        top = y + place * ROW
        parts.append(text(LEFT - 8, top + 13, scene.variant(turn.variant).title, "small", "end"))
        parts.append(rect(LEFT, top + 2, width, ROW - 6, _css(scene, turn.variant)))
        parts.append(text(LEFT + width + 6, top + 13, cell(column, value), "small"))
    return parts


def _scale(numbers: Sequence[float], start: float, end: float) -> tuple[Callable[[float], float], Sequence[float], str]:
    """Returns where a value lies, the ends of the scale, and its kind in words. It starts at zero unless the values are
    far apart: then it is logarithmic, and zero is at its start."""
    positive = [value for value in numbers if value > 0] or [1.0]
    if max(positive) <= _FACTOR * min(positive):
        return Scale(0, max(positive), start, end), (0.0, max(positive)), ""
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    scale = Scale(low, high, start, end)
    return lambda value: scale(math.log10(value)) if value > 0 else start, (10.0**low, 10.0**high), " (logarithmic)"


def _lines(scene: DemoScene[Any], series: Series[Any], turns: Sequence[Turn[Any]], y: float) -> list[str]:
    """A line per variant, of its last turn, on one scale of time."""
    last = {turn.variant: series.points(turn.record) for turn in _grouped(scene, turns)}
    drawn = {variant: points for variant, points in last.items() if points}
    values = [value for points in drawn.values() for _, value in points]
    seconds = max((at for points in drawn.values() for at, _ in points), default=1.0)
    top, bottom, left, right = y + 22, y + 22 + LINES, 60.0, WIDTH - 20
    x = Scale(0, seconds, left, right)
    level, ticks, kind = _scale([*values, series.limit or 0.0], bottom, top)
    parts = [text(10, y + 12, series.title + kind, ""), line(left, bottom, right, bottom, "axis")]
    parts += [text(left - 6, level(tick) + 4, f"{tick:,.4g}", "small", "end") for tick in ticks]
    parts += [text(left, bottom + 14, "0 s", "small"), text(right, bottom + 14, f"{seconds:.0f} s", "small", "end")]
    if series.limit is not None:
        parts.append(line(left, level(series.limit), right, level(series.limit), "limit"))
        parts.append(text(right, level(series.limit) - 4, series.limit_title, "small", "end"))
    for place, (variant, points) in enumerate(drawn.items()):
        css, at = _css(scene, variant), left + 60 + place * 180
        path: list[Point] = [(x(second), level(value)) for second, value in points]
        parts.append(polyline(path, css))
        parts.append(
            rect(at, bottom + 6, 10, 10, css) + text(at + 15, bottom + 15, scene.variant(variant).title, "small")
        )
    return parts
