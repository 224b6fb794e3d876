"""Small bars for tables: a node's current water level, one row of a waterfall, a share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slackwater.charts import svg
from slackwater.charts.stacks import StackLayer
from slackwater.charts.svg import Frame, Scale
from slackwater.charts.units import amount, cores, percent

WATERFALL = Frame(240, 22, left=2, right=2, top=3, bottom=3)
SHARE = Frame(320, 8, left=0, right=0, top=0, bottom=0)
TANK = Frame(200, 14, left=0, right=0, top=0, bottom=0)


def tank(layers: Sequence[StackLayer], capacity: int, frame: Frame = TANK) -> str:
    """The layers side by side from the left: used, offered, margin; the total is the larger of capacity and usage."""
    top = max([capacity, 1, *(layer.high for layer in layers)])
    x = Scale(0, top, frame.x0, frame.x1)
    body = [
        svg.rect(
            x(layer.low),
            frame.y1,
            x(layer.high) - x(layer.low),
            frame.y0 - frame.y1,
            f"layer {layer.name}",
            f"{layer.name} {cores(layer.amount)} cores",
        )
        for layer in layers
        if layer.amount
    ]
    used = sum(layer.amount for layer in layers if layer.name not in ("offered", "margin"))
    return svg.figure(frame, body, f"{cores(used)} of {cores(capacity)} cores used")


def waterfall_range(steps: Sequence[int], result: int) -> tuple[int, int]:
    """The least and the greatest of zero, the result and the running totals `steps`: the range of the bars."""
    ends = [0, result, *steps]
    return min(ends), max(ends)


def waterfall_bar(before: int, after: int, low: int, high: int, css: str, unit: str, frame: Frame = WATERFALL) -> str:
    """One bar from `before` to `after`; a change that is not zero is at least one unit wide."""
    x = Scale(low, high, frame.x0, frame.x1)
    left, right = sorted((x(before), x(after)))
    if before != after and right - left < 1:
        left = min(left, frame.x1 - 1)
        right = left + 1
    title = f"from {amount(before, unit)} to {amount(after, unit)}"
    body = [
        svg.line(x(0), 0, x(0), frame.height, "base"),
        svg.rect(left, frame.y1, right - left, frame.y0 - frame.y1, f"bar {css}", radius=1.5),
        svg.line(x(after), frame.y1, x(after), frame.height, "grid"),
    ]
    return svg.figure(frame, body, title)


def share_bar(value: float, css: str, frame: Frame = SHARE) -> str:
    """A share (0..1) as a bar."""
    x = Scale(0, 1, frame.x0, frame.x1)
    body = [
        svg.rect(0, 0, frame.width, frame.height, "lane", radius=3),
        svg.rect(0, 0, x(value), frame.height, f"bar {css}", radius=3),
    ]
    return svg.figure(frame, body, percent(value))


EFFECT = Frame(440, 62, left=4, right=4, top=20, bottom=18)


def effect_bar(
    before: float, after: float, waterline: float, say: Callable[[float], str] = percent, frame: Frame = EFFECT
) -> str:
    """A reading before and after an action, against its waterline: two bars and a line, on one scale from zero."""
    x = Scale(0, max(before, after, waterline, 0.01) * 1.1, frame.x0, frame.x1)
    height = (frame.y0 - frame.y1 - 4) / 2
    body = [
        svg.rect(frame.x0, frame.y1, frame.x1 - frame.x0, frame.y0 - frame.y1, "lane", radius=3),
        svg.rect(frame.x0, frame.y1, x(before) - frame.x0, height, "bar before", f"before {say(before)}", 2),
        svg.rect(
            frame.x0, frame.y0 - height, x(after) - frame.x0, height, "bar after", f"after {say(after)}", radius=2
        ),
        svg.line(x(waterline), frame.y1 - 4, x(waterline), frame.y0 + 4, "waterline"),
    ]
    anchor = "start" if x(waterline) < frame.width / 3 else "end" if x(waterline) > frame.width * 2 / 3 else "middle"
    body.append(svg.text(x(waterline), frame.y1 - 8, f"waterline {say(waterline)}", "axis strong", anchor))
    return svg.figure(frame, body, f"from {say(before)} to {say(after)}, waterline {say(waterline)}")
