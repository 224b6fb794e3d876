"""The water level over time: usage by tier from the bottom up, the unused offer on top of it, the margin above."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from slackwater.charts import axes, svg
from slackwater.charts.marks import ChartMark, ListHref, draw_marks
from slackwater.charts.stacks import LAYERS, StackLayer, water_level
from slackwater.charts.svg import Frame, Scale
from slackwater.charts.units import cores

GAP_SECONDS = 45.0
"""Longest distance of two samples that a chart joins, where samples are not closer than a third of it."""
LEAST_GAP_SECONDS = 12.0
"""Samples further apart are not connected, because the time between them is unknown."""
THIN_UNITS = 6.0
READINGS = 90


@dataclass(frozen=True, slots=True)
class LevelSample:
    """Usage by layer (milli-cores) at one time, and the offer at that time; `beyond` as for `water_level`."""

    at: datetime
    used: Mapping[str, int]
    offered: int | None
    beyond: int = 0


def gap_of(times: Sequence[datetime]) -> float:
    """The distance from which two samples are not joined: three times the usual one, because a line across a gap draws
    a change that nothing measured.
    """
    between = sorted((after - before).total_seconds() for before, after in pairwise(times))
    usual = between[len(between) // 2] if between else GAP_SECONDS
    return min(GAP_SECONDS, max(LEAST_GAP_SECONDS, 3 * usual))


def runs(samples: Sequence[LevelSample], gap_seconds: float = GAP_SECONDS) -> list[list[LevelSample]]:
    """Samples split where more than `gap_seconds` lie between two."""
    found: list[list[LevelSample]] = []
    for sample in samples:
        if found and (sample.at - found[-1][-1].at).total_seconds() <= gap_seconds:
            found[-1].append(sample)
        else:
            found.append([sample])
    return found


def with_steps(run: Sequence[LevelSample]) -> list[LevelSample]:
    """The samples, and before each with another offer the same one with the offer before: an offer holds until the
    next, so that its edge is upright."""
    steps = list(run[:1])
    for before, sample in pairwise(run):
        steps += [replace(sample, offered=before.offered), sample] if sample.offered != before.offered else [sample]
    return steps


def thinned(samples: Sequence[LevelSample], x: Scale) -> list[LevelSample]:
    """At most two samples of each THIN_UNITS of the time axis, those of the lowest and the highest usage, in order.

    Reports above a waterline come every second; more points than pixels only make the page heavy.
    """
    buckets: dict[int, list[LevelSample]] = {}
    for sample in samples:
        buckets.setdefault(int(x(sample.at.timestamp()) // THIN_UNITS), []).append(sample)
    kept: list[LevelSample] = []
    for bucket in buckets.values():
        ends = {id(pick(bucket, key=lambda sample: sum(sample.used.values()))) for pick in (min, max)}
        kept += [sample for sample in bucket if id(sample) in ends]
    return kept


def level_chart(
    frame: Frame,
    since: datetime,
    until: datetime,
    samples: Sequence[LevelSample],
    capacity: int,
    marks: Sequence[ChartMark] = (),
    label: str = "CPU by tier over time",
    waterlines: Sequence[tuple[str, int]] = (),
    unit: str = "cores",
    list_href: ListHref | None = None,
) -> str:
    """Stacked areas with the capacity and the waterlines (name, amount) as lines, and the marks as vertical lines."""
    x = Scale(since.timestamp(), until.timestamp(), frame.x0, frame.x1)
    gap = gap_of([sample.at for sample in samples])
    samples = thinned(samples, x)
    highest = max((water_level(sample.used, sample.offered, capacity)[-1].high for sample in samples), default=capacity)
    y = Scale(0, max(highest, capacity, 1) * 1.04, frame.y0, frame.y1)
    body = axes.amounts(frame, y, cores)
    for run in map(with_steps, runs(samples, gap)):
        body += areas(run, [water_level(sample.used, sample.offered, capacity) for sample in run], x, y)
    body.append(svg.line(frame.x0, y(capacity), frame.x1, y(capacity), "capacity"))
    body += readings(frame, x, samples, unit=unit)
    body += [drawn for name, amount in waterlines for drawn in waterline_of(frame, y, name, amount)]
    body += draw_marks(frame, x, marks, list_href)
    body += axes.time_axis(frame, x, since, until, most=5 if frame.width > 500 else 3)
    return svg.figure(frame, body, label)


def waterline_of(frame: Frame, y: Scale, name: str, amount: int) -> list[str]:
    """A dashed line with its name above it, or below if there is no room above."""
    place = y(amount)
    below = place - frame.y1 < 18
    return [
        svg.line(frame.x0, place, frame.x1, place, "waterline"),
        svg.text(frame.x0 + 4, place + (13 if below else -4), f"waterline of {name} {cores(amount)}", "axis strong"),
    ]


def areas(run: Sequence[LevelSample], stacks: Sequence[tuple[StackLayer, ...]], x: Scale, y: Scale) -> list[str]:
    drawn = []
    for index, name in enumerate([*LAYERS, "offered", "margin"]):
        layers = [stack[index] for stack in stacks]
        if all(layer.amount == 0 for layer in layers):
            continue
        along = [x(sample.at.timestamp()) for sample in run]
        if len(along) == 1:
            along, layers = [along[0] - 1, along[0] + 1], layers * 2
        upper = [(place, y(layer.high)) for place, layer in zip(along, layers, strict=True)]
        lower = [(place, y(layer.low)) for place, layer in zip(along, layers, strict=True)]
        drawn.append(svg.polygon([*upper, *reversed(lower)], f"layer {name}"))
        if name not in ("offered", "margin"):
            drawn.append(svg.polyline(upper, f"edge {name}"))
    return drawn


def readings(
    frame: Frame,
    x: Scale,
    samples: Sequence[LevelSample],
    say: Callable[[int], str] = cores,
    unit: str = "cores",
) -> list[str]:
    """Invisible columns that show the numbers on hover."""
    most = READINGS if frame.width > 500 else READINGS // 3
    step = max(1, -(-len(samples) // most))
    chosen = samples[::step]
    drawn = []
    for sample, following in zip(chosen, [*chosen[1:], None], strict=False):
        left = x(sample.at.timestamp())
        right = x(following.at.timestamp()) if following else frame.x1
        title = f"{sample.at:%H:%M:%S} UTC: " + ", ".join(
            f"{name} {say(value)}" for name, value in sample.used.items() if value
        )
        if sample.offered is not None:
            title += f"; offered {say(sample.offered)} {unit}"
        drawn.append(svg.rect(left, frame.y1, right - left, frame.y0 - frame.y1, "reading", title))
    return drawn
