"""Quotas as drawings: a bullet of one quota in one resource, and what it used over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.charts import axes, svg
from slackwater.charts.svg import Frame, Point, Scale

BULLET = Frame(260, 20, left=1, right=1, top=3, bottom=3)
LEDGER_GAP_SECONDS = 150.0
"""A ledger is kept at least every minute; over a longer pause nothing is drawn, because nothing is known of it."""
Say = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class QuotaSample:
    """One quota at one time, in one resource; all in a unit of which the axis has round numbers, such as GiB."""

    at: datetime
    used: float
    runtime: float
    requested: float


def quota_bullet(
    used: int, borrowed: int, runtime: int, low: int, high: int | None, top: int, say: Say, frame: Frame = BULLET
) -> str:
    """A bar of what is used, its borrowed end in another colour, on a lane up to the max; lines at min and runtime.

    `top` is the end of the scale, common to all quotas of a tree. Without a max the lane goes to its end.
    """
    x = Scale(0, max(top, 1), frame.x0, frame.x1)
    height = frame.y0 - frame.y1
    limit = "no max" if high is None else f"max {say(high)}"
    own = max(used - borrowed, 0)
    body = [
        svg.rect(frame.x0, frame.y1, x(top if high is None else high) - frame.x0, height, "lane", limit, radius=2),
        svg.rect(frame.x0, frame.y1 + 3, x(own) - frame.x0, height - 6, "bar used", f"used {say(used)}"),
        svg.rect(x(own), frame.y1 + 3, x(used) - x(own), height - 6, "bar borrowed", f"borrowed {say(borrowed)}"),
        svg.line(x(low), frame.y1 - 2, x(low), frame.y0 + 2, "minimum"),
        svg.line(x(runtime), frame.y1 - 2, x(runtime), frame.y0 + 2, "runtime"),
    ]
    words = f"used {say(used)}, borrowed {say(borrowed)}, runtime {say(runtime)}, min {say(low)}, {limit}"
    return svg.figure(frame, body, words)


def quota_history(
    frame: Frame,
    since: datetime,
    until: datetime,
    samples: Sequence[QuotaSample],
    low: float,
    top: float,
    say: Callable[[float], str],
    label: str,
) -> str:
    """What a quota used (area), requested (thin line) and might use (line) in steps, with its min of now as a dashed
    line. `top` is the end of the scale."""
    x = Scale(since.timestamp(), until.timestamp(), frame.x0, frame.x1)
    y = Scale(0, (top if top > 0 else 1) * 1.05, frame.y0, frame.y1)
    body = axes.amounts(frame, y, say, wanted=2)
    for run in _runs(samples):
        end = min(until.timestamp(), run[-1].at.timestamp() + LEDGER_GAP_SECONDS / 2)
        used = _steps([(one.at, one.used) for one in run], end, x, y)
        body.append(svg.polygon([(used[0][0], frame.y0), *used, (used[-1][0], frame.y0)], "layer usedquota"))
        body.append(svg.polyline(_steps([(one.at, one.requested) for one in run], end, x, y), "edge askedquota"))
        body.append(svg.polyline(_steps([(one.at, one.runtime) for one in run], end, x, y), "edge runtimequota"))
    if low:
        body.append(svg.line(frame.x0, y(low), frame.x1, y(low), "minimum"))
    body += axes.time_axis(frame, x, since, until, most=4 if frame.width > 400 else 3)
    return svg.figure(frame, body, label)


def _runs(samples: Sequence[QuotaSample]) -> list[list[QuotaSample]]:
    """Samples split where more than LEDGER_GAP_SECONDS lie between two."""
    found: list[list[QuotaSample]] = []
    for sample in samples:
        if found and (sample.at - found[-1][-1].at).total_seconds() <= LEDGER_GAP_SECONDS:
            found[-1].append(sample)
        else:
            found.append([sample])
    return found


def _steps(series: Sequence[tuple[datetime, float]], end: float, x: Scale, y: Scale) -> list[Point]:
    """A step line: each value holds until the next, the last until `end` (seconds since the epoch)."""
    ends = [*(at.timestamp() for at, _ in series[1:]), end]
    return [
        point
        for (at, value), until in zip(series, ends, strict=True)
        for point in ((x(at.timestamp()), y(value)), (x(until), y(value)))
    ]
