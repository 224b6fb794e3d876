"""Renders a simulation of quotas as an HTML page."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from slackwater.charts import axes, svg
from slackwater.charts.svg import Frame, Scale
from slackwater.pages.paper import COLOURS, template
from slackwater.simulation.domain.quota_tally import BUCKETS, QuotaTally
from slackwater.simulation.edge.quota_report import quota_report_of
from slackwater.simulation.usecases.replay_quotas import QuotaSimulation

TEMPLATES = Path(__file__).parent / "templates"
FRAME = Frame(860, 200, left=52, right=16, top=14, bottom=26)
_DAY_S = 86_400.0


def quota_page(simulation: QuotaSimulation) -> str:
    """Returns a self-contained HTML file."""
    quotas = sorted({name for replay in simulation.replayed for name in replay.tally.by_quota})
    colours = {name: f"c{place % COLOURS}" for place, name in enumerate(quotas)}
    used_most, queued_most = (
        max((sum(values) for replay in simulation.replayed for values in _columns(replay.tally, series)), default=0.0)
        for series in ("series_used", "series_queued")
    )
    pictures = [
        {
            "name": replay.name,
            "used": Markup(  # noqa: S704 - drawn by us, escaped in svg
                _areas(replay.tally, "series_used", colours, max(used_most, 1.0), f"Use under {replay.name}")
            ),
            "queued": Markup(  # noqa: S704 - as before
                _areas(replay.tally, "series_queued", colours, queued_most, f"Queue under {replay.name}")
            ),
        }
        for replay in simulation.replayed
    ]
    return template(TEMPLATES, "quotas.html", duration=duration, share=share).render(
        report=quota_report_of(simulation), pictures=pictures, colours=colours
    )


def duration(seconds: float | None) -> str:
    """Formats a time in the largest unit that leaves at least two digits."""
    if seconds is None:
        return "-"
    for unit, length in (("d", _DAY_S), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.0f} s"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"


def _columns(tally: QuotaTally, series: str) -> list[tuple[float, ...]]:
    """Returns the values of all quotas by point in time."""
    return list(zip(*(getattr(figures, series) for figures in tally.by_quota.values()), strict=True))


def _areas(tally: QuotaTally, series: str, colours: dict[str, str], high: float, label: str) -> str:
    """Draws the quotas' shares of the pool over time, stacked."""
    begin_s, end_s = tally.span_s
    top = axes.ceiling(max(high * 100, 1.0))
    y = Scale(0, top, FRAME.y0, FRAME.y1)
    x = Scale(0, BUCKETS, FRAME.x0, FRAME.x1)
    body = axes.amounts(FRAME, y, lambda value: f"{value:g} %", wanted=4)
    below = [0.0] * BUCKETS
    for name, figures in sorted(tally.by_quota.items()):
        above = [low + value * 100 for low, value in zip(below, getattr(figures, series), strict=True)]
        edge = [(x(place + 0.5), y(value)) for place, value in enumerate(above)]
        back = [(x(place + 0.5), y(value)) for place, value in reversed(list(enumerate(below)))]
        body.append(svg.polygon([*edge, *back], f"mark {colours[name]}", name))
        below = above
    hours = (end_s - begin_s) / 3600
    if hours > 72:
        body += axes.days(FRAME, Scale(0, hours / 24, FRAME.x0, FRAME.x1))
    else:
        across = Scale(0, hours * 60, FRAME.x0, FRAME.x1)
        body += [
            svg.text(across(at), FRAME.height - 6, f"{at:g} min", "axis", "middle") for at in axes.ticks(hours * 60)
        ]
    return svg.figure(FRAME, body, label)
