"""Renders a simulation of strategies as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from slackwater.pages.paper import COLOURS, template
from slackwater.simulation.edge.simulation_pictures import ShownStrategy, over_time, place_of, plane, shares
from slackwater.simulation.edge.simulation_report import MOST_NODES, report_of
from slackwater.simulation.usecases.replay import Simulation
from slackwater.traces.options import UNITS, TraceResource

TEMPLATES = Path(__file__).parent / "templates"


def page(simulation: Simulation) -> str:
    """Returns a self-contained HTML file."""
    shown = [
        ShownStrategy(one.variant.name, f"c{place % COLOURS}", one) for place, one in enumerate(simulation.replayed)
    ]
    there = replayed_resources(shown)
    pictures = [
        {
            "resource": each,
            "unit": UNITS[each].name,
            "time": Markup(over_time(simulation.history, shown, each)),  # noqa: S704 - drawn by us, escaped in svg
            "shares": Markup(shares(shown, each)),  # noqa: S704 - as before
        }
        for each in there
    ]
    return template(TEMPLATES, "simulation.html", amount=amount).render(
        report=report_of(simulation),
        most_nodes=MOST_NODES,
        shown=shown,
        resources=there,
        pictures=pictures,
        plane=Markup(plane(shown, there)),  # noqa: S704 - as before
    )


def replayed_resources(shown: Sequence[ShownStrategy]) -> Sequence[TraceResource]:
    """Returns the resources that the history contains."""
    film = shown[0].replayed.tally.film
    return [each for each in TraceResource if any(came[3][place_of(each)] for came in film)]


def amount(value: float) -> str:
    """Formats a number; large ones without decimals."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
