"""Actions on a timeline: a line with a flag for each. Marks too close to tell apart become one, with their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from slackwater.charts import svg
from slackwater.charts.svg import Frame, Scale

APART: Final = 16.0
"""Marks closer than this (SVG units) to the first of a group join it; the flag of a group is narrower."""
LISTED: Final = 12
"""Most marks that a group names."""
SEVERITY: Final = ("evict", "throttle", "scheduling", "restore")
ListHref = Callable[[datetime, datetime], str]
"""The address of the list of the marks between two times, both included."""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """An action at one time; `css` is its kind."""

    at: datetime
    css: str
    label: str
    href: str


def group_marks(marks: Sequence[ChartMark], x: Scale) -> list[tuple[ChartMark, ...]]:
    """The marks by time in groups: each spans less than APART, and the next begins at least APART after it begins."""
    groups: list[list[ChartMark]] = []
    for mark in sorted(marks, key=lambda mark: mark.at):
        if groups and x(mark.at.timestamp()) - x(groups[-1][0].at.timestamp()) < APART:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return [tuple(group) for group in groups]


def draw_marks(frame: Frame, x: Scale, marks: Sequence[ChartMark], list_href: ListHref | None = None) -> list[str]:
    """The marks as links: one to its decision, a group to the list of its decisions."""
    return [
        _single(frame, x, group[0]) if len(group) == 1 else _group(frame, x, group, list_href)
        for group in group_marks(marks, x)
    ]


def css_of_group(group: Sequence[ChartMark]) -> str:
    """The class of the most severe mark that was carried out; of the most severe one if none was."""
    carried_out = [mark for mark in group if "told" not in mark.css.split()] or group
    return min((mark.css for mark in carried_out), key=_rank)


def _rank(css: str) -> int:
    kind = css.split()[0]
    return SEVERITY.index(kind) if kind in SEVERITY else len(SEVERITY)


def _single(frame: Frame, x: Scale, mark: ChartMark) -> str:
    """A vertical line with a small flag on top; both link to the decision and name it on hover."""
    place = x(mark.at.timestamp())
    left = min(max(place - 4, 0), frame.width - 8)
    drawn = [
        svg.line(place, frame.y1, place, frame.y0, f"mark {mark.css}"),
        svg.rect(place - 3, frame.y1, 6, frame.y0 - frame.y1, "grip", mark.label),
        svg.rect(left, frame.y1 - 9, 8, 8, f"flag {mark.css}", mark.label, radius=2),
    ]
    return svg.link(mark.href, "".join(drawn))


def _group(frame: Frame, x: Scale, group: Sequence[ChartMark], list_href: ListHref | None) -> str:
    """A line at the first mark, a band to the last, and a flag with the number; they link to the list."""
    first, last = group[0].at, group[-1].at
    place, end = x(first.timestamp()), x(last.timestamp())
    css, label = css_of_group(group), _label(group)
    width = 14.0 if len(group) < 100 else 20.0
    left = min(max(place - 4, 0), frame.width - width)
    drawn = [
        svg.line(place, frame.y1, place, frame.y0, f"mark {css}"),
        svg.rect(place - 3, frame.y1, end - place + 6, frame.y0 - frame.y1, "grip", label),
        svg.rect(left, frame.y1 - 11, width, 11, f"flag {css}", label, radius=3),
        svg.text(left + width / 2, frame.y1 - 2.5, str(len(group)), "flagcount", "middle", label),
    ]
    return svg.link(list_href(first, last) if list_href else group[-1].href, "".join(drawn))


def _label(group: Sequence[ChartMark]) -> str:
    lines = [mark.label.partition("\n")[0] for mark in group[:LISTED]]
    more = [f"and {len(group) - LISTED} more"] if len(group) > LISTED else []
    return "\n".join([f"{len(group)} actions", *lines, *more])
