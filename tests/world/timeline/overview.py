"""The whole run in one picture: a row for each process, faults as bands, steps as ticks, the failure as a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from tests.world.timeline.history import OPERATED, Band, Event, History, lane_of
from tests.world.trace import Kind

from slackwater.charts import svg
from slackwater.charts.axes import ticks
from slackwater.charts.svg import Frame, Scale

WIDTH, ROW, TOP, BOTTOM, LEFT = 1240.0, 17.0, 34.0, 26.0, 112.0
_TICK = 2.0
"""Pixels of one tick; steps of a process within them are drawn as one, higher where there are more."""
_NARROWEST_BAND = 3.0
_LEVELS = ((1, "few"), (4, "some"), (12, "many"))


def draw_overview(history: History, seconds: float, phases: Sequence[tuple[str, float]]) -> str:
    """Returns the picture as SVG."""
    frame = Frame(WIDTH, TOP + ROW * len(history.lanes) + BOTTOM, LEFT, 26.0, TOP, BOTTOM)
    x = Scale(0.0, max(seconds, history.end), frame.x0, frame.x1)
    rows = {lane: TOP + ROW * place for place, lane in enumerate(history.lanes)}
    body = [*_phases(frame, x, phases), *_lanes(frame, rows), *_axis(frame, x)]
    body += [_band(band, x, rows) for band in history.bands if lane_of(band.target) in rows]
    body += _ticks(history, x, rows) + _lives(history, x, rows) + _failure(history, frame, x, rows)
    return svg.figure(frame, body, f"{len(history.events)} steps of {len(history.lanes)} processes over virtual time")


def _lanes(frame: Frame, rows: dict[str, float]) -> list[str]:
    drawn = []
    for lane, y in rows.items():
        drawn.append(svg.line(frame.x0, y + ROW - 0.5, frame.x1, y + ROW - 0.5, "grid"))
        drawn.append(svg.text(frame.x0 - 8, y + ROW - 5, lane, "lane", "end"))
    return drawn


def _phases(frame: Frame, x: Scale, phases: Sequence[tuple[str, float]]) -> list[str]:
    drawn, start = [], 0.0
    for name, length in phases:
        if length > 0:
            left, right = x(start), x(start + length)
            drawn.append(svg.rect(left, frame.y1, right - left, frame.y0 - frame.y1, f"phase {name}"))
            drawn.append(svg.text(left + 4, frame.y1 - 6, name, "axis"))
            start += length
    return drawn


def _axis(frame: Frame, x: Scale) -> list[str]:
    drawn = []
    for at in ticks(x.high, 10):
        drawn.append(svg.line(x(at), frame.y1, x(at), frame.y0, "grid"))
        drawn.append(svg.text(x(at), frame.y0 + 16, f"{at:g} s", "axis", "middle"))
    return drawn


def _band(band: Band, x: Scale, rows: dict[str, float]) -> str:
    """A fault: at least wide enough to point at."""
    left = x(band.since)
    width = max(x(band.until) - left, _NARROWEST_BAND)
    amount = f", {band.amount:g}" if band.amount else ""
    title = f"{band.kind} of {band.target}{amount}: {band.since:.1f} s to {band.until:.1f} s (step {band.n})"
    return svg.rect(left, rows[lane_of(band.target)] + 1.5, width, ROW - 3, "band", title, radius=2)


def _ticks(history: History, x: Scale, rows: dict[str, float]) -> list[str]:
    counts: Counter[tuple[str, int]] = Counter()
    firsts: dict[tuple[str, int], Event] = {}
    for event in history.events:
        if event.lane in rows and not event.kind.startswith(("fault", "process")):
            key = event.lane, int(x(event.at) / _TICK)
            counts[key] += 1
            firsts.setdefault(key, event)
    drawn = []
    for (lane, place), count in counts.items():
        first = firsts[lane, place]
        css = next(name for least, name in reversed(_LEVELS) if count >= least)
        title = f"{lane}: {count} steps from {first.n}, {first.at:.2f} s, {first.kind}"
        drawn.append(svg.rect(place * _TICK, rows[lane] + 5, _TICK - 0.5, ROW - 10, f"tick {css}", title))
    return drawn


def _lives(history: History, x: Scale, rows: dict[str, float]) -> list[str]:
    """Starts, stops, crashes, freezes: small marks."""
    drawn = []
    for event in history.events:
        if event.kind in OPERATED and event.lane in rows and (event.at > 0 or event.kind != Kind.STARTED):
            at, y = x(event.at), rows[event.lane]
            corners = [(at - 4, y + 2), (at + 4, y + 2), (at, y + 9)]
            css = "life bad" if event.kind in (Kind.CRASHED, Kind.FROZEN) else "life good"
            drawn.append(svg.polygon(corners, css, f"{event.kind}: {event.subject}, {event.at:.2f} s (step {event.n})"))
    return drawn


def _failure(history: History, frame: Frame, x: Scale, rows: dict[str, float]) -> list[str]:
    if history.violation is None or history.failed is None:
        return []
    event = history.events[history.failed]
    at = x(history.violation.at)
    drawn = [svg.line(at, frame.y1 - 4, at, frame.y0, "failure")]
    anchor = "end" if at > frame.width / 2 else "start"
    shift = -5 if anchor == "end" else 5
    drawn.append(
        svg.text(at + shift, 12, f"violated at {history.violation.at:.2f} s, step {event.n}", "failed", anchor)
    )
    if event.lane in rows:
        title = f"<title>{escape(history.violation.subject)}</title>"
        y = rows[event.lane] + ROW / 2
        drawn.append(f'<circle cx="{svg.number(at)}" cy="{svg.number(y)}" r="5" class="failed">{title}</circle>')
    return drawn
