"""How many nodes are how loaded, before and now: two bars per tenth of capacity."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.charts import axes, svg
from slackwater.charts.svg import Frame, Scale
from slackwater.charts.units import percent


def load_frame(width: float) -> Frame:
    """The frame of a chart of this width."""
    return Frame(width, 190, left=40, right=10, top=12, bottom=26)


def load_chart(
    frame: Frame, before: Sequence[int], after: Sequence[int], means: tuple[float, float], label: str
) -> str:
    """Nodes per tenth of capacity, before (outlined) beside now (filled), with a line at the mean of each. `means` are
    shares; an empty `before` draws only what is now."""
    count = max(len(after), 1)
    x = Scale(0, count, frame.x0, frame.x1)
    y = Scale(0, axes.ceiling(max([1, *before, *after])), frame.y0, frame.y1)
    body = axes.amounts(frame, y, lambda value: f"{value:.0f}" if value == int(value) else "", wanted=3)
    width = (frame.x1 - frame.x0) / count
    for place in range(count):
        span = f"{percent(place / count, 0)} to {percent((place + 1) / count, 0)}"
        pairs = (("earlier", before, 0.1), ("now", after, 0.5))
        for css, counts, at in pairs:
            if place < len(counts) and counts[place]:
                nodes = counts[place]
                words = f"{css} {nodes} node{'s' * (nodes != 1)} at {span}"
                top = y(nodes)
                body.append(svg.rect(x(place) + at * width, top, 0.4 * width, frame.y0 - top, f"loads {css}", words))
    for css, value, counts in (("earlier", means[0], before), ("now", means[1], after)):
        if sum(counts):
            at = x(value * count)
            body.append(svg.line(at, frame.y1, at, frame.y0, f"loadmean {css}"))
    for place in range(0, count + 1, 2):
        anchor = "end" if place == count else "middle"
        body.append(svg.text(x(place), frame.y0 + 17, percent(place / count, 0), anchor=anchor))
    return svg.figure(frame, body, label)
