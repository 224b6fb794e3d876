"""A picture of bars: a row per turn, its bar on a scale that starts at zero, and its value in words. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.charts.svg import number, rect, text

WIDTH, ROW, LEFT, RIGHT = 840.0, 22.0, 150.0, 150.0
STYLE: Final = """
 text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #57606a }
 .title { font-size: 14px; font-weight: 600 }
 .plain { fill: #cf222e } .weights { fill: #8250df } .slackwater { fill: #1a7f37 } .batch { fill: #d4a72c }
 .ground { fill: #ffffff }
 @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .ground { fill: #0d1117 }
 .plain { fill: #ff7b72 } .weights { fill: #a371f7 } .slackwater { fill: #56d364 } .batch { fill: #bb8009 } }
"""


@dataclass(frozen=True, slots=True)
class TurnBar:
    """One row: its label, its value (None: not measured), the value in words, and a class of the style."""

    label: str
    value: float | None
    words: str
    css: str


@dataclass(frozen=True, slots=True)
class BarPanel:
    """Bars on one scale. `logarithmic` if the values differ by more than a factor that a line can show."""

    title: str
    bars: Sequence[TurnBar]
    note: str = ""
    """What a reader should know of the values, like which of them are better."""

    @property
    def is_logarithmic(self) -> bool:
        known = [bar.value for bar in self.bars if bar.value]
        return bool(known) and max(known) > 20 * min(known)

    def length(self, value: float | None, width: float) -> float:
        known = [bar.value for bar in self.bars if bar.value]
        if not value or not known:
            return 0.0
        if not self.is_logarithmic:
            return width * value / max(known)
        low, high = math.log10(min(known)) - 0.3, math.log10(max(known))
        return width * (math.log10(value) - low) / (high - low)


def bars(label: str, panels: Sequence[BarPanel], heading: str = "") -> str:
    """Returns the SVG of panels below each other, under a heading if there is one; it stands alone, light and dark."""
    parts, y = [], 14.0
    if heading:
        parts.append(text(10, y + 8, heading, "title"))
        y += 28
    for panel in panels:
        title = panel.title + (" (logarithmic)" if panel.is_logarithmic else "")
        parts.append(text(10, y + 8, title + (f": {panel.note}" if panel.note else ""), ""))
        y += 20
        for bar in panel.bars:
            width = panel.length(bar.value, WIDTH - LEFT - RIGHT)
            parts.append(text(LEFT - 8, y + 13, bar.label, "small", "end"))
            parts.append(rect(LEFT, y + 2, width, ROW - 6, bar.css))
            parts.append(text(LEFT + width + 6, y + 13, bar.words, "small"))
            y += ROW
        y += 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(WIDTH)} {number(y)}" role="img" '
        f'aria-label="{label}"><style>{STYLE}</style>{rect(0, 0, WIDTH, y, "ground")}{"".join(parts)}</svg>\n'
    )
