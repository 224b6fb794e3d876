"""The water level of every pool: one bar each, with the pool's capacity at the same length for all pools.

From the left: system or reservation, prod's usage, prod's expected usage beyond that, mid, batch, the unused offer, and
the capacity that is not offered. What exceeds the capacity is drawn in a strip of its own behind it, with its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slackwater.charts import svg
from slackwater.charts.stacks import StackLayer
from slackwater.charts.svg import Frame, Scale

ROW, BAR = 44.0, 15.0
"""Height of a pool's row and of its bar, in SVG units."""
BOTTOM = 24.0
NAME_LETTER, LETTER = 8.5, 6.5
"""Maximum width of a letter in SVG units: of a pool's name, and of the text on its right."""
STRIP = 0.06
"""Width of the strip for what exceeds the capacity, as a share of the capacity: the scale never goes beyond it."""
CUT_FIRST = ("offered", "mid", "expected", "batch", "prod", "system")
"""Order in which layers that exceed the capacity are cut."""
WORDS = {
    "system": "system or reserve",
    "prod": "used by prod",
    "expected": "expected of prod beyond that",
    "mid": "mid",
    "batch": "used by batch and free",
    "offered": "offered to batch, unused",
    "margin": "not offered",
    "over": "beyond capacity",
}


@dataclass(frozen=True, slots=True)
class PoolLevel:
    """One pool's bar; all amounts in one unit. `said` is the text on its right, above the bar."""

    pool: str
    href: str
    capacity: int
    layers: tuple[StackLayer, ...]
    said: str
    alert: bool = False


def pool_layers(
    *, capacity: int, reserve: int, prod: int, expected: int, mid: int, borrowed: int, batch: int
) -> tuple[StackLayer, ...]:
    """The layers from 0 to the capacity, and `over` for what exceeds it. They do not overlap; their sum is the larger
    of the capacity and of all amounts.

    `expected` contains `prod`, `batch` is the offer of which `borrowed` is used; negative amounts count as zero. What
    is offered or expected is cut to the capacity before what is used.
    """
    amounts = {
        "system": max(0, reserve),
        "prod": max(0, prod),
        "expected": max(0, expected - prod),
        "mid": max(0, mid),
        "batch": max(0, borrowed),
        "offered": max(0, batch - borrowed),
    }
    whole = max(0, capacity)
    over = left = max(0, sum(amounts.values()) - whole)
    for name in CUT_FIRST:
        cut = min(left, amounts[name])
        amounts[name] -= cut
        left -= cut
    layers, top = [], 0
    for name, amount in amounts.items():
        layers.append(StackLayer(name, top, top + amount))
        top += amount
    return (*layers, StackLayer("margin", top, whole), StackLayer("over", whole, whole + over))


def pool_frame(pools: int, width: float) -> Frame:
    """A canvas for this many pools."""
    return Frame(width, pools * ROW + BOTTOM, left=2, right=2, top=0, bottom=BOTTOM)


def pool_chart(frame: Frame, pools: Sequence[PoolLevel], say: Callable[[int], str], label: str) -> str:
    """Bars below each other on one scale of shares, from 0 to 100 % and the strip for what exceeds."""
    x = Scale(0, 1 + STRIP, frame.x0, frame.x1)
    body = _shares(frame, x)
    for place, level in enumerate(pools):
        body += _row(frame, x, place * ROW, level, say)
    return svg.figure(frame, body, label)


def _row(frame: Frame, x: Scale, top: float, level: PoolLevel, say: Callable[[int], str]) -> list[str]:
    name = level.pool or "(no pool)"
    shown = _fitting(name, frame, level.said)
    whole_name = name if shown != name else None
    drawn = [
        svg.link(level.href, svg.text(frame.x0, top + 14, shown, "poolname", title=whole_name)),
        svg.text(frame.x1, top + 14, level.said, "axis strong" if level.alert else "axis", "end"),
    ]
    whole = max(level.capacity, 1)
    for layer in level.layers:
        if layer.amount:
            left, right = x(min(1.0, layer.low / whole)), x(min(1 + STRIP, layer.high / whole))
            title = f"{name}: {say(layer.amount)} {WORDS[layer.name]}"
            drawn.append(svg.rect(left, top + 21, right - left, BAR, f"layer {layer.name}", title))
    return [*drawn, svg.line(x(1.0), top + 18, x(1.0), top + 24 + BAR, "capacity")]


def _fitting(name: str, frame: Frame, said: str) -> str:
    """The part of a name that fits beside the figures; the hover text and the table have the full name."""
    letters = int((frame.x1 - frame.x0 - len(said) * LETTER) / NAME_LETTER) - 2
    return name if len(name) <= letters else f"{name[: max(letters - 1, 1)]}\N{HORIZONTAL ELLIPSIS}"


def _shares(frame: Frame, x: Scale) -> list[str]:
    drawn = []
    for percent in range(0, 101, 25):
        place = x(percent / 100)
        anchor = "start" if percent == 0 else "end" if place > frame.x1 - 20 else "middle"
        drawn.append(svg.line(place, 18, place, frame.y0, "grid"))
        drawn.append(svg.text(place, frame.y0 + 16, f"{percent} %", anchor=anchor))
    return drawn
