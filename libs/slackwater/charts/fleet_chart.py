"""The water level of the fleet over hours: usage by tier, unused offers, the margin, the capacity.

Capacity and requests are separate lines, because both change when nodes join and leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.charts import axes, svg
from slackwater.charts.level_chart import LevelSample, areas, readings, runs
from slackwater.charts.stacks import water_level
from slackwater.charts.svg import Frame, Scale


@dataclass(frozen=True, slots=True)
class FleetSample:
    """A level with its capacity and requests at one time, all in one unit."""

    level: LevelSample
    capacity: int
    requested: int

    @property
    def at(self) -> datetime:
        return self.level.at


@dataclass(frozen=True, slots=True)
class Wording:
    """How amounts are written: on the axis, in readings, and the unit's name."""

    say: Callable[[float], str]
    unit: str
    step: float = 1.0
    """The unit in which ticks are round: 1000 milli-cores, 2**30 bytes."""


def fleet_chart(
    frame: Frame,
    since: datetime,
    until: datetime,
    samples: Sequence[FleetSample],
    wording: Wording,
    *,
    gap_seconds: float,
    label: str,
) -> str:
    """Stacked areas, the capacity as a dashed line, the requests as a thin line; gaps stay empty."""
    stacks = {s.at: water_level(s.level.used, s.level.offered, s.capacity, s.level.beyond) for s in samples}
    top = max([1, *(layers[-1].high for layers in stacks.values()), *(s.requested for s in samples)])
    x = Scale(since.timestamp(), until.timestamp(), frame.x0, frame.x1)
    y = Scale(0, top * 1.06, frame.y0, frame.y1)
    in_steps = Scale(0, y.high / wording.step, frame.y0, frame.y1)
    body = axes.amounts(frame, in_steps, lambda value: wording.say(value * wording.step))
    levels = [sample.level for sample in samples]
    known = {sample.at: sample for sample in samples}
    for run in runs(levels, gap_seconds):
        body += areas(run, [stacks[each.at] for each in run], x, y)
        along = [known[each.at] for each in run]
        body.append(svg.polyline([(x(s.at.timestamp()), y(s.capacity)) for s in along], "capacity line"))
        body.append(svg.polyline([(x(s.at.timestamp()), y(s.requested)) for s in along], "requested line"))
    body += readings(frame, x, levels, say=wording.say, unit=wording.unit)
    body += axes.time_axis(frame, x, since, until, most=7 if frame.width > 500 else 3)
    return svg.figure(frame, body, label)
