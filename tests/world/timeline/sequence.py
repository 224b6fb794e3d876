"""The steps before the failure in detail: time downwards, a column for each process, arrows for messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tests.world.timeline.history import Event, History, chain, near

from slackwater.charts import svg
from slackwater.charts.svg import Frame

ROW, TOP, LEFT, WIDTH = 19.0, 66.0, 128.0, 1240.0
MOST_STEPS = 120
_COLUMN, _NARROWEST_TEXT, _KIND, _LETTER = 62.0, 480.0, 86.0, 6.65
"""Widths: of a column at most, of the text beside them at least, of the event's name in it, and of a letter."""
_WORLD = "world"


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of columns and rows, in SVG units."""

    columns: dict[str, float]
    rows: dict[int, float]
    gaps: Sequence[tuple[float, int]]
    height: float
    right: float
    """Where the text begins."""

    @property
    def longest_text(self) -> int:
        """In letters."""
        return int((WIDTH - self.right - _KIND - 6) / _LETTER)


def lay_out(history: History, shown: Sequence[int]) -> Layout:
    """Returns a row for each step to show, and for each gap between them one with the number of steps left out."""
    present = {_column(history.events[place]) for place in shown}
    lanes = [lane for lane in (*history.lanes, _WORLD) if lane in present]
    width = min(_COLUMN, (WIDTH - _NARROWEST_TEXT - LEFT) / max(1, len(lanes)))
    columns = {lane: LEFT + width * (place + 0.5) for place, lane in enumerate(lanes)}
    rows: dict[int, float] = {}
    gaps, y, before = [], TOP, -1
    for place in shown:
        if place > before + 1:
            gaps.append((y, place - before - 1))
            y += ROW
        rows[place] = y
        y, before = y + ROW, place
    return Layout(columns, rows, gaps, y + ROW, LEFT + width * len(lanes) + 8)


def _column(event: Event) -> str:
    return event.lane or _WORLD


def draw_sequence(history: History, most: int = MOST_STEPS) -> str:
    """Returns the picture as SVG."""
    shown, led = near(history, most), chain(history)
    layout = lay_out(history, shown)
    frame = Frame(WIDTH, layout.height, 0, 0, 0, 0)
    body = [_marker(), *_heads(layout), *_bands(history, layout), *_gaps(layout)]
    body += _arrows(history, layout, led)
    body += [_step(history, place, layout, place in led) for place in shown]
    return svg.figure(frame, body, f"{len(shown)} steps before the failure, with the messages between processes")


def _marker() -> str:
    paths = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0.5 L8 4 L0 7.5 z" class="{name}"/></marker>'
        for name in ("head", "head-led")
    )
    return f"<defs>{paths}</defs>"


def _heads(layout: Layout) -> list[str]:
    drawn = []
    for lane, x in layout.columns.items():
        place = f"translate({svg.number(x - 3)} {svg.number(TOP - 14)}) rotate(-32)"
        drawn.append(f'<text transform="{place}" class="lane">{escape(lane)}</text>')
        drawn.append(svg.line(x, TOP - 8, x, layout.height - ROW, "rail"))
    return drawn


def _gaps(layout: Layout) -> list[str]:
    drawn = []
    for y, count in layout.gaps:
        drawn.append(svg.rect(0, y - ROW / 2 + 2, WIDTH, ROW - 4, "gap"))
        drawn.append(svg.text(LEFT + 8, y + 4, f"{count} steps without a part in it", "axis"))
    return drawn


def _bands(history: History, layout: Layout) -> list[str]:
    """Faults beside the column of their target, over the rows of the time in which they last."""
    drawn = []
    times = [(history.events[place].at, y) for place, y in layout.rows.items()]
    for band in history.bands:
        lane = band.target.partition(">")[0]
        covered = [y for at, y in times if band.since <= at <= band.until]
        if lane in layout.columns and covered:
            top, bottom = covered[0] - ROW / 2, covered[-1] + ROW / 2
            title = f"{band.kind} of {band.target}: {band.since:.2f} s to {band.until:.2f} s (step {band.n})"
            drawn.append(svg.rect(layout.columns[lane] - 7, top, 14, bottom - top, "band", title, radius=4))
    return drawn


def _arrows(history: History, layout: Layout, led: set[int]) -> list[str]:
    drawn = []
    for edge in history.edges:
        if edge.source not in layout.rows or edge.target not in layout.rows:
            continue
        source, target = history.events[edge.source], history.events[edge.target]
        y1, y2 = layout.rows[edge.source], layout.rows[edge.target]
        x1, x2 = layout.columns[_column(source)], layout.columns[_column(target)]
        css = "led" if {edge.source, edge.target} <= led else ""
        title = f"{source.lane} (step {source.n}) → {target.lane} (step {target.n})\n{source.subject}"
        bend = 26 if x1 == x2 else 0
        middle = (x1 + x2) / 2 + bend
        path = f"M{x1:.1f} {y1:.1f} C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2 + (5 if bend else 0):.1f} {y2:.1f}"
        head = "head-led" if css else "head"
        drawn.append(
            f'<path d="{path}" class="arrow {css}" marker-end="url(#{head})"><title>{escape(title)}</title></path>'
        )
    return drawn


def _step(history: History, place: int, layout: Layout, is_led: bool) -> str:
    event, y = history.events[place], layout.rows[place]
    x = layout.columns[_column(event)]
    group = event.kind.partition(".")[0]
    most = layout.longest_text
    text = event.text if len(event.text) <= most else f"{event.text[: most - 1]}…"
    marks = " led" * is_led + " failed" * (place == history.failed)
    title = escape(f"step {event.n}, {event.at:.6f} s, {event.lane}\n{event.kind}: {event.text}\ncause: {event.cause}")
    name = event.kind.partition(".")[2] or event.kind
    return (
        f'<g class="step {group}{marks}" data-p="{escape(_column(event))}" data-k="{escape(event.kind)}">'
        f"<title>{title}</title>"
        f'<rect x="0" y="{y - ROW / 2:.1f}" width="{WIDTH:g}" height="{ROW:g}" class="row"/>'
        f"{svg.text(48, y + 4, str(event.n), 'n', 'end')}{svg.text(120, y + 4, f'{event.at:.3f} s', 'at', 'end')}"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="dot"/>'
        f"{svg.text(layout.right + 6, y + 4, name, 'kind')}"
        f"{svg.text(layout.right + 6 + _KIND, y + 4, text, 'what')}</g>"
    )
