"""Renders a simulation of moves as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from slackwater.charts import axes, svg
from slackwater.charts.svg import Frame, Scale
from slackwater.pages.paper import COLOURS, template
from slackwater.simulation.edge.move_report import MoveResult, move_report_of
from slackwater.simulation.usecases.replay_moves import MoveSimulation

TEMPLATES = Path(__file__).parent / "templates"
FRAME = Frame(860, 220, left=52, right=16, top=14, bottom=26)


def move_page(simulation: MoveSimulation) -> str:
    """Returns a self-contained HTML file."""
    report = move_report_of(simulation)
    colours = {each.name: f"c{place % COLOURS}" for place, each in enumerate(report.moved)}
    pictures = [
        ("Hot nodes", _lines([move.hot_points for move in report.moved], report.moved, colours, "", 1, simulation)),
        (
            "Standard deviation of the nodes' CPU load",
            _lines([move.imbalance_points for move in report.moved], report.moved, colours, " %", 100, simulation),
        ),
    ]
    return template(TEMPLATES, "moves.html").render(report=report, pictures=pictures, colours=colours)


def _lines(
    series: Sequence[Sequence[float]],
    results: Sequence[MoveResult],
    colours: dict[str, str],
    unit: str,
    scale: float,
    simulation: MoveSimulation,
) -> Markup:
    top = axes.ceiling(max((value * scale for values in series for value in values), default=1.0) or 1.0)
    y = Scale(0, top, FRAME.y0, FRAME.y1)
    body = axes.amounts(FRAME, y, lambda value: f"{value:g}{unit}", wanted=4)
    for values, result in zip(series, results, strict=True):
        x = Scale(0, max(len(values) - 1, 1), FRAME.x0, FRAME.x1)
        line = [(x(place), y(value * scale)) for place, value in enumerate(values)]
        body.append(svg.polyline(line, f"mark {colours[result.name]}", result.name))
    body += axes.days(FRAME, Scale(0, simulation.hours / 24, FRAME.x0, FRAME.x1))
    return Markup(svg.figure(FRAME, body, "by way of moving pods"))  # noqa: S704 - drawn by us, escaped in svg
