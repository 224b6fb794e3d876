"""Offers over time: each value until the next one, the reason of the change, and the degraded spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.charts import axes, svg
from slackwater.charts.line_charts import Series, bounded, steps
from slackwater.charts.svg import Frame, Scale

APART = 8.0
"""Marks closer than this (SVG units) to the one before are merged."""


@dataclass(frozen=True, slots=True)
class OfferStep:
    """The offer from a time on, in one unit; `degraded` is the reason of a degraded offer, None otherwise."""

    at: datetime
    batch: int
    mid: int
    degraded: str | None


@dataclass(frozen=True, slots=True)
class OfferChangeMark:
    """A time at which the offer changed: `css` is the reason, `href` links to the record (empty: none is known)."""

    at: datetime
    css: str
    label: str
    href: str


@dataclass(frozen=True, slots=True)
class ChartUnit:
    """How amounts are written on the axis; `step` is the amount of a round tick (1000 milli-cores, 2**30 bytes)."""

    say: Callable[[float], str]
    step: float


def degraded_spans(found: Sequence[OfferStep], until: datetime) -> list[tuple[datetime, datetime, str]]:
    """The spans in which the offer was degraded, with the reason; consecutive spans with equal reasons are merged."""
    spans: list[tuple[datetime, datetime, str]] = []
    for step, end in zip(found, [*(each.at for each in found[1:]), until], strict=False):
        if step.degraded is None:
            continue
        begin = step.at
        if spans and spans[-1][1:] == (begin, step.degraded):
            begin = spans.pop()[0]
        spans.append((begin, end, step.degraded))
    return spans


def offer_chart(
    frame: Frame,
    since: datetime,
    until: datetime,
    found: Sequence[OfferStep],
    changes: Sequence[OfferChangeMark],
    unit: ChartUnit,
    label: str,
) -> str:
    """Batch as an area, mid as a line, degraded spans shaded; values from before `since` begin at the left edge."""
    x = Scale(since.timestamp(), until.timestamp(), frame.x0, frame.x1)
    high = max([unit.step / 10, *(value for step in found for value in (step.batch, step.mid))])
    y = Scale(0, high * 1.08, frame.y0, frame.y1)
    body = axes.amounts(
        frame, Scale(0, y.high / unit.step, frame.y0, frame.y1), lambda value: unit.say(value * unit.step), wanted=3
    )
    for begin, end, why in degraded_spans(found, until):
        left, right = x(max(begin, since).timestamp()), x(end.timestamp())
        title = f"degraded from {begin:%H:%M:%S}: {why}"
        body.append(svg.rect(left, frame.y1, max(right - left, 1), frame.y0 - frame.y1, "caution", title))
    body += _line(frame, [(step.at, step.batch) for step in found], since, until, x, y, "batchoffer")
    if any(step.mid for step in found):
        body += _line(frame, [(step.at, step.mid) for step in found], since, until, x, y, "midoffer")
    body += [drawn for change in thinned(changes, x) for drawn in _mark(frame, x, change)]
    body += axes.time_axis(frame, x, since, until, most=5 if frame.width > 500 else 3)
    return svg.figure(frame, body, label)


def thinned(changes: Sequence[OfferChangeMark], x: Scale) -> list[OfferChangeMark]:
    """Changes that lie too close together are replaced by the last of them, which states their number."""
    groups: list[list[OfferChangeMark]] = []
    for change in changes:
        if groups and x(change.at.timestamp()) - x(groups[-1][0].at.timestamp()) < APART:
            groups[-1].append(change)
        else:
            groups.append([change])
    return [_last_of(group) for group in groups]


def _last_of(group: Sequence[OfferChangeMark]) -> OfferChangeMark:
    last = group[-1]
    more = f" (and {len(group) - 1} before it)" if len(group) > 1 else ""
    return OfferChangeMark(group[0].at, last.css, last.label + more, last.href)


def _line(frame: Frame, series: Series, since: datetime, until: datetime, x: Scale, y: Scale, css: str) -> list[str]:
    line = steps(bounded(series, since), until, x, y)
    if not line:
        return []
    area = svg.polygon([(line[0][0], frame.y0), *line, (line[-1][0], frame.y0)], f"layer {css}")
    return [area, svg.polyline(line, f"edge {css}")]


def _mark(frame: Frame, x: Scale, change: OfferChangeMark) -> list[str]:
    place = min(max(x(change.at.timestamp()), frame.x0), frame.x1)
    flag = svg.rect(place - 4, frame.y1 - 9, 8, 8, f"flag {change.css}", change.label, radius=4)
    return [
        svg.line(place, frame.y1, place, frame.y0, f"mark {change.css}"),
        svg.link(change.href, flag) if change.href else flag,
    ]
