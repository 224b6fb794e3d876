"""The SVG elements of all charts. This module escapes text; the charts do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Frame:
    """A chart's canvas in SVG units and the plot inside it (edges included)."""

    width: float
    height: float
    left: float = 46.0
    right: float = 12.0
    top: float = 12.0
    bottom: float = 24.0

    @property
    def x0(self) -> float:
        return self.left

    @property
    def x1(self) -> float:
        return self.width - self.right

    @property
    def y0(self) -> float:
        """The lower edge of the plot (SVG counts downwards)."""
        return self.height - self.bottom

    @property
    def y1(self) -> float:
        return self.top


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear, from data `low`..`high` to pixels `start`..`end`; values outside are clamped."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        if self.high <= self.low:
            return self.start
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)


def number(value: float) -> str:
    """A coordinate: two decimals at most, no trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def points(pairs: Sequence[Point]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in pairs)


def titled(title: str | None) -> str:
    return f"<title>{escape(title)}</title>" if title else ""


def rect(x: float, y: float, width: float, height: float, css: str, title: str | None = None, radius: float = 0) -> str:
    """A rectangle; width and height are never negative."""
    rounded = f' rx="{number(radius)}"' if radius else ""
    size = f'width="{number(max(width, 0))}" height="{number(max(height, 0))}"'
    return f'<rect x="{number(x)}" y="{number(y)}" {size}{rounded} class="{css}">{titled(title)}</rect>'


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" class="{css}"/>'


def polyline(pairs: Sequence[Point], css: str, title: str | None = None) -> str:
    return f'<polyline points="{points(pairs)}" class="{css}">{titled(title)}</polyline>' if pairs else ""


def polygon(pairs: Sequence[Point], css: str, title: str | None = None) -> str:
    return f'<polygon points="{points(pairs)}" class="{css}">{titled(title)}</polygon>' if pairs else ""


def text(x: float, y: float, content: str, css: str = "axis", anchor: str = "start", title: str | None = None) -> str:
    place = f'x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"'
    return f'<text {place} class="{css}">{titled(title)}{escape(content)}</text>'


def link(href: str, body: str) -> str:
    return f'<a href="{escape(href, quote=True)}">{body}</a>'


def figure(frame: Frame, body: Sequence[str], label: str) -> str:
    """The whole picture; `label` describes it in one sentence, for screen readers."""
    box = f"0 0 {number(frame.width)} {number(frame.height)}"
    head = f'<svg viewBox="{box}" role="img" aria-label="{escape(label, quote=True)}" class="chart">'
    return head + "".join(body) + "</svg>"
