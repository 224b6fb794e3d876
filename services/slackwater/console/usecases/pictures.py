"""Shared parts of the pages: pictures in two widths, time spans, samples of a report, the feed of decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from slackwater.charts.bars import waterfall_bar, waterfall_range
from slackwater.charts.svg import Frame
from slackwater.console.domain.episodes import DecisionRow, rows_of
from slackwater.console.domain.formatting import equation
from slackwater.console.domain.views import DecisionFilter, UsagePoint, WaterfallRow
from slackwater.console.domain.waterfall import adds_up, waterfall_of
from slackwater.console.ports import ReadQueries
from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord

SPAN, LEAST_SPAN = timedelta(minutes=15), timedelta(minutes=3)
FEED_LENGTH, FEED_READ = 8, 80
"""Rows of a feed, and the most decisions read for them."""
WHOLE, HALF = 880.0, 580.0
"""Widths of charts in SVG units, close to their width in pixels, so that text keeps its size."""
ACTIONS = (DecisionKind.THROTTLE, DecisionKind.RESTORE, DecisionKind.EVICT, DecisionKind.SCHEDULING)
WITHOUT_PREDICTIONS = tuple(kind for kind in DecisionKind if kind is not DecisionKind.PREDICTION)


@dataclass(frozen=True, slots=True)
class Picture:
    """The same chart for wide and narrow windows; the style sheet shows one of them."""

    wide: str
    narrow: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a waterfall with its picture."""

    row: WaterfallRow
    picture: str


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A record's terms drawn; `total` is the bar of the result, `equation` the unrounded sum."""

    record: DecisionRecord
    bars: tuple[Bar, ...]
    total: str
    adds_up: bool
    equation: str


def both(
    draw: Callable[[Frame], str],
    height: float,
    *,
    width: float = WHOLE,
    flat: bool = False,
    narrow_height: float | None = None,
) -> Picture:
    """Draw for a wide and for a narrow window; `flat` leaves no room for axes."""
    margins: Mapping[str, float] = {"top": 0, "bottom": 0} if flat else {}
    low = narrow_height or (max(height * 0.8, 18) if flat else height * 0.85)
    return Picture(
        wide=draw(Frame(width, height, **margins)),
        narrow=draw(Frame(360, low, left=34, right=6, **margins)),
    )


def used_by_layer(point: UsagePoint) -> dict[str, int]:
    """Milli-cores per layer of a report."""
    parts = {name: part.cpu_milli for name, part in point.tiers.items()}
    return {**parts, "system": point.beside_pods.cpu_milli}


def memory_by_layer(point: UsagePoint) -> dict[str, int]:
    """Thousandths of a GiB per layer of a report."""
    parts = {name: part.memory_bytes for name, part in point.tiers.items()}
    parts["system"] = point.beside_pods.memory_bytes
    return {name: round(amount * 1000 / 2**30) for name, amount in parts.items()}


def begin_of(now: datetime, samples: Sequence[datetime]) -> datetime:
    """The start of charts: the first sample of the last 15 minutes, at latest 3 minutes ago."""
    return min([now - LEAST_SPAN, *samples[:1]])


def steps_href(node: str, first: datetime, last: datetime) -> str:
    """The address of the list of a node's decisions from one to another time, each with a row; in whole seconds."""
    until = last + timedelta(seconds=1)
    span = {"node": node, "since": f"{first:%Y-%m-%dT%H:%M:%SZ}", "until": f"{until:%Y-%m-%dT%H:%M:%SZ}"}
    return f"/decisions?{urlencode({**span, 'steps': 'each'})}"


def episode_href(row: DecisionRow) -> str:
    """The address of the list of the steps of a row."""
    return steps_href(row.newest.node, row.since, row.newest.decided_at) + "&" + urlencode({"episode": row.episode})


async def feed(
    reads: ReadQueries, node: str | None = None, kinds: tuple[DecisionKind, ...] = WITHOUT_PREDICTIONS
) -> Sequence[DecisionRow]:
    """The newest episodes. Predictions are left out, because the offers made from them link to them."""
    return rows_of(await reads.decisions(DecisionFilter(node=node, kinds=kinds, limit=FEED_READ)), FEED_LENGTH)


def drawn(record: DecisionRecord) -> Waterfall:
    """The record's terms with a bar each."""
    rows = waterfall_of(record)
    low, high = waterfall_range([row.running_after for row in rows], record.result)
    bars = tuple(
        Bar(
            row,
            waterfall_bar(
                row.running_before, row.running_after, low, high, "gain" if row.value >= 0 else "loss", record.unit
            ),
        )
        for row in rows
    )
    total = waterfall_bar(0, record.result, low, high, "result", record.unit)
    return Waterfall(record, bars, total, adds_up(rows, record.result), equation(record))
