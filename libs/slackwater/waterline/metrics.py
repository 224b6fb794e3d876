"""The metrics that may carry a waterline: how each is read, and how many milli-cores lie between it and the line.

A metric is one entry of METRICS. `gap` is what has to be released so that the reading comes down to the line, before
any excess; `headroom` how much may be given back before the reading reaches the line (None = the metric sets no bound).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from slackwater.waterline.snapshot import Snapshot

PRESSURE_CAP = 0.9
"""When prod waited nearly all the time its pressure no longer tells how much it lacked: the gap would explode."""


@dataclass(frozen=True, slots=True)
class Metric:
    """See the module's docstring. `reading` returns None when the snapshot has no such measurement."""

    name: str
    unit: str
    reading: Callable[[Snapshot], float | None]
    gap_milli: Callable[[Snapshot, float], int]
    headroom_milli: Callable[[Snapshot, float], int | None]


def prod_demand_milli(snapshot: Snapshot) -> int:
    """What prod wanted: tasks that ran for R and waited for W wanted R + W, so with pressure p it is R / (1 - p).

    Some-pressure counts a moment once however many tasks wait in it: a lower bound. More than the node has can be
    wanted but not had, so the capacity bounds it. Without pressure, what prod used.
    """
    pressure = min(snapshot.prod_pressure or 0.0, PRESSURE_CAP)
    return min(snapshot.capacity_milli, round(snapshot.prod_usage_milli / (1 - pressure)))


def _pressure_gap(snapshot: Snapshot, _waterline: float) -> int:
    """The CPU that prod lacked, R x p / (1 - p). A lower bound, so several cycles may be needed."""
    return max(0, prod_demand_milli(snapshot) - snapshot.prod_usage_milli)


def _usage_ratio(snapshot: Snapshot) -> float | None:
    if snapshot.usage_milli is None:
        return None
    return snapshot.usage_milli / snapshot.capacity_milli


def _usage_above(snapshot: Snapshot, waterline: float) -> int:
    return math.ceil((snapshot.usage_milli or 0) - waterline * snapshot.capacity_milli)


def _usage_below(snapshot: Snapshot, waterline: float) -> int:
    return math.floor(waterline * snapshot.capacity_milli - (snapshot.usage_milli or 0))


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("prod_cpu_pressure", "ratio", lambda s: s.prod_pressure, _pressure_gap, lambda _s, _w: None),
            Metric("node_cpu_usage_ratio", "ratio", _usage_ratio, _usage_above, _usage_below),
        )
    }
)
