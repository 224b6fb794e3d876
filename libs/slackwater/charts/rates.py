"""Rates on a logarithmic axis with a place for zero; and named points on a plane over it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slackwater.charts import svg
from slackwater.charts.svg import Frame, Scale

LEAST = 1e-4
"""Start of the logarithmic axis, with a place for 0 before it."""
_TICKS = {0.0: "0", 0.001: "0.1 %", 0.01: "1 %", 0.1: "10 %", 1.0: "100 %"}
LABEL_HEIGHT, LETTER_WIDTH = 13.0, 7.8
Box = tuple[float, float, float, float]


def position(rate: float) -> float:
    """The position along the axis, 0..1; rate 0 is at 0, LEAST at a twelfth."""
    if rate <= 0:
        return 0.0
    share = (math.log10(max(rate, LEAST)) - math.log10(LEAST)) / -math.log10(LEAST)
    return (1 + 11 * share) / 12


def axis(x: Scale, top: float, bottom: float) -> list[str]:
    """Lines from `top` to `bottom` and the rates below them; `x` goes from 0 to 1."""
    drawn = []
    for rate, said in _TICKS.items():
        at = x(position(rate))
        drawn.append(svg.line(at, top, at, bottom, "grid" if rate else "base"))
        drawn.append(svg.text(at, bottom + 16, said, anchor="middle"))
    return drawn


def spot(x: float, y: float, css: str, title: str) -> str:
    """One point on the plane."""
    place = f'cx="{svg.number(x)}" cy="{svg.number(y)}"'
    return f'<circle {place} r="5.5" class="spot {css}">{svg.titled(title)}</circle>'


def labels(named: Sequence[tuple[str, str]], spots: Sequence[svg.Point], frame: Frame) -> list[str]:
    """Each (name, class) beside its point, moved up or down until it covers no other label; a thin line connects a
    label that moved far.
    """
    taken: list[Box] = [(x - 7, y - 7, x + 7, y + 7) for x, y in spots]
    drawn = []
    for (name, css), (x, y) in sorted(zip(named, spots, strict=True), key=lambda pair: pair[1][1]):
        width = len(name) * LETTER_WIDTH
        left = x + 11 + width > frame.x1
        x0 = x - 11 - width if left else x + 11
        moves = [sign * step for step in range(0, 400, 3) for sign in (1, -1)]
        moves.sort(key=lambda move: not frame.y1 <= y + move <= frame.y0 - 4)  # prefer moves inside the plot
        move = next(
            move for move in moves if not any(_meet((x0, y + move - 7, x0 + width, y + move + 6), box) for box in taken)
        )
        taken.append((x0, y + move - LABEL_HEIGHT / 2, x0 + width, y + move + LABEL_HEIGHT / 2))
        if abs(move) > LABEL_HEIGHT:
            drawn.append(svg.line(x, y, x0 + width + 2 if left else x0 - 2, y + move, f"leader {css}"))
        drawn.append(svg.text(x0, y + move + 4, name, f"axis name {css}"))
    return drawn


def _meet(box: Box, other: Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
