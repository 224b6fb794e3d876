"""Renders an assessment as an HTML page."""

from __future__ import annotations

from markupsafe import Markup

from slackwater.pages.paper import COLOURS, template
from slackwater.simulation.domain.worth import Prices
from slackwater.simulation.edge.assessment_pictures import MOST_BARS, node_bars, over_time, plane
from slackwater.simulation.edge.assessment_report import assessment_of, widest
from slackwater.simulation.edge.recommended_documents import text_of
from slackwater.simulation.edge.simulation_page import TEMPLATES, amount
from slackwater.simulation.usecases.assess import Assessment
from slackwater.traces.options import UNITS


def page(found: Assessment, prices: Prices, pool: str | None, gib_per_core: float | None = None) -> str:
    """Returns a self-contained HTML file."""
    report = assessment_of(found, prices, pool, gib_per_core)
    parts = [
        {
            "resource": each,
            "unit": UNITS[each],
            "css": [f"c{place % COLOURS}" for place in range(len(one.judged))],
            "plane": Markup(plane(one.judged, [f"c{n % COLOURS}" for n in range(len(one.judged))])),  # noqa: S704 - drawn by us, texts are escaped in svg
            "time": Markup(over_time(found, each)),  # noqa: S704 - as before
            "nodes": Markup(node_bars(found.nodes, each)),  # noqa: S704 - as before
        }
        for each, one in found.resources.items()
    ]
    return template(TEMPLATES, "assessment.html", amount=amount).render(
        report=report,
        parts=parts,
        most=MOST_BARS,
        documents=text_of(report.documents),
        workloads=widest(report.workloads),
    )
