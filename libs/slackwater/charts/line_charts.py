"""Lines over time: pressure against its waterline, forecast against actual usage, and the lane of limits in force."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slackwater.charts import axes, svg
from slackwater.charts.level_chart import gap_of
from slackwater.charts.marks import ChartMark, ListHref, draw_marks
from slackwater.charts.svg import Frame, Point, Scale
from slackwater.charts.units import amount, cores, percent

Series = Sequence[tuple[datetime, float]]


def _joined(series: Series, x: Scale, y: Scale) -> list[list[Point]]:
    """Polylines, split where values are missing."""
    found: list[list[Point]] = []
    before: datetime | None = None
    gap = gap_of([at for at, _ in series])
    for at, value in series:
        if before is None or (at - before).total_seconds() > gap:
            found.append([])
        found[-1].append((x(at.timestamp()), y(value)))
        before = at
    return found


def steps(series: Series, until: datetime, x: Scale, y: Scale) -> list[Point]:
    """A step line: each value holds until the next."""
    found: list[Point] = []
    for (at, value), following in zip(series, [*(moment for moment, _ in series[1:]), until], strict=False):
        found += [(x(at.timestamp()), y(value)), (x(following.timestamp()), y(value))]
    return found


def pressure_chart(
    frame: Frame,
    since: datetime,
    until: datetime,
    series: Series,
    waterline: float | None,
    marks: Sequence[ChartMark] = (),
    list_href: ListHref | None = None,
) -> str:
    """Prod CPU pressure (0..1) with its waterline, if known."""
    x = Scale(since.timestamp(), until.timestamp(), frame.x0, frame.x1)
    high = max([value for _, value in series] + [(waterline or 0) * 1.5, 0.05])
    y = Scale(0, min(1.0, axes.ceiling(high * 100) / 100), frame.y0, frame.y1)
    body = axes.amounts(frame, y, lambda value: f"{value * 100:.3g} %", wanted=3)
    flags = draw_marks(frame, x, marks, list_href)
    if waterline is not None:
        body.append(svg.line(frame.x0, y(waterline), frame.x1, y(waterline), "waterline"))
        body.append(svg.text(frame.x1, y(waterline) - 5, f"waterline {percent(waterline, 0)}", "axis strong", "end"))
    for line in _joined(series, x, y):
        if len(line) > 1:
            body.append(svg.polygon([(line[0][0], frame.y0), *line, (line[-1][0], frame.y0)], "layer pressure"))
        body.append(svg.polyline(line, "edge pressure"))
    body += flags
    body += axes.time_axis(frame, x, since, until, most=5 if frame.width > 500 else 3)
    return svg.figure(frame, body, "Prod CPU pressure over time, with its waterline")


def forecast_chart(
    frame: Frame, since: datetime, until: datetime, actual: Series, expected: Series, *, resource: str = "CPU"
) -> str:
    """Prod's usage (thousandths of a core or GiB) against its expected peak; usage above the peak is highlighted."""
    x = Scale(since.timestamp(), until.timestamp(), frame.x0, frame.x1)
    high = max([value for _, value in [*actual, *expected]], default=1)
    y = Scale(0, axes.ceiling(max(high, 1)), frame.y0, frame.y1)
    body = axes.amounts(frame, y, cores, wanted=3)
    line = steps(expected, until, x, y)
    if line:
        body.append(svg.polygon([(line[0][0], frame.y0), *line, (line[-1][0], frame.y0)], "layer forecast"))
        body.append(svg.polyline(line, "edge forecast"))
    body += [svg.polyline(part, "edge prod") for part in _joined(actual, x, y)]
    for run in above(actual, expected):
        first, in_force = run[0][0], run[0][2]
        parts = _joined([(at, value) for at, value, _ in run], x, y)
        rise = (x(first.timestamp()), y(in_force))
        body += [svg.polyline([rise, *part] if place == 0 else part, "edge over") for place, part in enumerate(parts)]
    body += axes.time_axis(frame, x, since, until, most=5 if frame.width > 500 else 3)
    return svg.figure(frame, body, f"Expected prod {resource} peak against prod usage over time")


def above(actual: Series, expected: Series) -> list[list[tuple[datetime, float, float]]]:
    """The samples above the peak expected at their time, with that peak: one list per unbroken run."""
    runs: list[list[tuple[datetime, float, float]]] = []
    following = iter([*expected, None])
    in_force: float | None = None
    was_above = False
    coming = next(following)
    for at, value in actual:
        while coming is not None and coming[0] <= at:
            in_force, coming = coming[1], next(following)
        is_above = in_force is not None and value > in_force
        if in_force is not None and is_above:
            if not was_above:
                runs.append([])
            runs[-1].append((at, value, in_force))
        was_above = is_above
    return runs


def limit_lane(frame: Frame, since: datetime, until: datetime, limits: Sequence[tuple[datetime, datetime, int]]) -> str:
    """The times when batch was limited, and the limit (milli-cores): one bar per limit; a lower limit is brighter."""
    x = Scale(since.timestamp(), until.timestamp(), frame.x0, frame.x1)
    y, height = frame.y1, frame.y0 - frame.y1
    body = [svg.rect(frame.x0, y, frame.x1 - frame.x0, height, "lane", radius=3)]
    for begin, end, milli in limits:
        left, right = x(begin.timestamp()), x(end.timestamp())
        label = amount(milli, "milli")
        body.append(svg.rect(left, y, right - left, height, "limited", f"batch limited to {label}", radius=3))
        if right - left > 9 * len(label) * 0.72:
            body.append(svg.text((left + right) / 2, y + height / 2 + 4, label, "inside", "middle"))
    return svg.figure(frame, body, "When batch was throttled, and to how much")


def bounded(series: Series, since: datetime) -> Series:
    """The series with points before the window moved to its left edge."""
    return [(max(at, since), value) for at, value in series]
