"""The charts of an assessment: risk against lendable share, usage and offers over time, and one bar per node."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slackwater.charts import axes, svg
from slackwater.charts.svg import Frame, Scale
from slackwater.simulation.domain.risk import RatedChoice
from slackwater.simulation.edge.simulation_pictures import CURVES, MOST_POINTS, Spot, risk_plane
from slackwater.simulation.usecases.assess import Assessment, NodeAssessed
from slackwater.simulation.usecases.placed_usage import PLACES
from slackwater.traces.grouping import grouped
from slackwater.traces.options import UNITS, TraceResource
from slackwater.traces.trace import DAY_CELLS

ROW = 22.0
MOST_BARS = 40


def plane(judged: Sequence[RatedChoice], css: Sequence[str]) -> str:
    """Draws the share of node minutes beyond capacity on the x axis and the lendable share on the y axis."""
    spots = []
    for rated, colour in zip(judged, css, strict=True):
        risk = "" if rated.violation is None else f", violation {rated.violation:.2%}"
        title = f"{rated.choice.name}: {rated.reclaimable_share:.1%}, {rated.exceeded_share:.3%} beyond capacity{risk}"
        spots.append(Spot(rated.choice.name, colour, rated.exceeded_share, rated.reclaimable_share, title))
    return risk_plane(
        spots,
        "share of the capacity that could be lent",
        "Minutes beyond capacity against what could be lent, for every tested setting",
    )


def over_time(found: Assessment, resource: TraceResource, frame: Frame = CURVES) -> str:
    """Draws, over all nodes: usage, usage plus lendable amount, capacity."""
    unit = UNITS[resource]
    series = found.film[resource]
    stride = max(1, math.ceil(len(series[0]) / MOST_POINTS))
    used, lent, capacity = (grouped(values, stride, np.max) / unit.step for values in series)
    days = (found.first + np.arange(len(used)) * stride + 1) / DAY_CELLS
    high = float(max(capacity.max(), (used + lent).max()))
    x = Scale(float(days[0]), float(max(days[-1], days[0] + 1e-6)), frame.x0, frame.x1)
    y = Scale(0, axes.ceiling(high) if high > 1 else max(high, 1e-9), frame.y0, frame.y1)
    at = [x(day) for day in days]
    body = axes.amounts(frame, y, lambda value: f"{value:,g}")
    heights = [y(value) for value in used]
    body.append(svg.polygon([(at[0], frame.y0), *zip(at, heights, strict=True), (at[-1], frame.y0)], "use"))
    for values, css, title in ((capacity, "curve oracle", "capacity"), (used + lent, "curve c0", "used and lent")):
        body.append(svg.polyline([(p, y(value)) for p, value in zip(at, values, strict=True)], css, title))
    body += axes.days(frame, x)
    return svg.figure(frame, body, f"{resource.upper()} of all nodes: used, and what could be lent, {unit.name}")


def node_bars(nodes: Sequence[NodeAssessed], resource: TraceResource) -> str:
    """Draws one row per node, ordered by lendable amount: requests as a line, usage at p95, lendable amount."""
    place = PLACES[resource]
    ordered = sorted(nodes, key=lambda node: -node.reclaimable_share[place])[:MOST_BARS]
    frame = Frame(860, len(ordered) * ROW + 30, left=190, right=24, top=4, bottom=26)
    most = max([1.0, *(node.requested[place] / max(1, node.capacity[place]) for node in ordered)])
    x = Scale(0, min(2.0, most), frame.x0, frame.x1)
    body = []
    for percent in range(0, int(x.high * 100) + 1, 20):
        at = x(percent / 100)
        body.append(svg.line(at, 4, at, frame.y0, "grid" if percent else "base"))
        body.append(svg.text(at, frame.y0 + 16, f"{percent} %", anchor="middle"))
    for row, node in enumerate(ordered):
        top, whole = 4 + row * ROW + 4, max(1, node.capacity[place])
        p95, share, asked = (node.used[place][1] / whole, node.reclaimable_share[place], node.requested[place] / whole)
        body.append(svg.text(frame.x0 - 10, top + 11, _short(node.name), "axis", "end"))
        body.append(svg.rect(x(0), top, x(p95) - x(0), 14, "use", f"{node.name}: used at p95 {p95:.1%}"))
        body.append(svg.rect(x(p95), top, x(p95 + share) - x(p95), 14, "lent c0", f"{node.name}: {share:.1%} could be"))
        body.append(svg.line(x(asked), top - 2, x(asked), top + 16, "median c1"))
    return svg.figure(frame, body, f"{resource.upper()} by node: used at p95, what could be lent, requested")


def _short(name: str, most: int = 26) -> str:
    return name if len(name) <= most else f"…{name[1 - most :]}"
