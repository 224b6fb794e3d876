"""Renders a simulation of policies as an HTML page."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from slackwater.pages.paper import COLOURS, template
from slackwater.simulation.edge.policy_pictures import ShownPolicy, by_hour, curves, hours_of, over_time
from slackwater.simulation.edge.policy_report import TimeAbove, policy_report_of
from slackwater.simulation.edge.simulation_report import MOST_NODES
from slackwater.simulation.usecases.replay_policies import PolicySimulation
from slackwater.waterline.registry.metric import Dimension

TEMPLATES = Path(__file__).parent / "templates"
SHOWN_GAPS = 10
"""Maximum per policy; the page states how many more there are."""


def policy_page(simulation: PolicySimulation) -> str:
    """Returns a self-contained HTML file."""
    shown = [ShownPolicy(one.variant.name, f"c{place % COLOURS}", one) for place, one in enumerate(simulation.replayed)]

    def dimension_of(name: str) -> Dimension:
        metric = simulation.metrics.get(name)
        return Dimension.NUMBER if metric is None else metric.dimension

    history = simulation.history
    pictures = [
        {
            "metric": curve.metric,
            "node": history.nodes[curve.node].name,
            "time": Markup(over_time(history, shown, curve)),  # noqa: S704 - drawn by us, escaped in svg
        }
        for curve in curves(shown, dimension_of)
    ]
    hours = hours_of(history)
    return template(TEMPLATES, "policies.html", amount=amount, signed=signed, waterline=waterline).render(
        report=policy_report_of(simulation),
        shown_gaps=SHOWN_GAPS,
        most_nodes=MOST_NODES,
        shown=shown,
        pictures=pictures,
        hours=hours,
        bars=Markup(by_hour(history, shown, hours)),  # noqa: S704 - as before
    )


def amount(value: float) -> str:
    """Formats a number; large ones without decimals."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.2f}"


def signed(value: float) -> str:
    """Formats a number with its sign, except if it rounds to 0."""
    text = amount(abs(value))
    return text if not text.strip("0.") else f"{'+' if value > 0 else '-'}{text}"


def waterline(excess: TimeAbove) -> str:
    """Formats the value of a waterline as in a policy document."""
    value = float(excess.value)
    match excess.unit:
        case Dimension.RATIO:
            return f"{value * 100:g} %"
        case Dimension.CPU:
            return f"{value / 1000:.10g} cores"
        case Dimension.MEMORY:
            return f"{value / 2**30:.10g} GiB"
    return f"{value:.10g}"
