"""The page: one file that needs nothing else, neither a network nor a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from slackwater.backtest.edge.pictures import ShownModel, curves, plane, risk_boxes, savings_boxes
from slackwater.backtest.edge.report_model import report_of
from slackwater.backtest.service import BacktestOutcome
from slackwater.backtest.usecases.compare import Judgement
from slackwater.backtest.usecases.judge import ORACLE, Film
from slackwater.pages.paper import COLOURS, template
from slackwater.traces.options import UNITS

TEMPLATES = Path(__file__).parent / "templates"
FAVOURITE = "workload-profile"
"""The default model: the machines on the page are chosen by how it did on them, and its curve is shown first."""


def page(outcome: BacktestOutcome) -> str:
    """Raises ValueError when the outcome was not filmed."""
    comparison = outcome.comparison
    if comparison.film is None:
        raise ValueError("the page needs the film of a placement")
    oracle, *judgements = comparison.judgements
    shown = [ShownModel(one, f"c{place % COLOURS}") for place, one in enumerate(judgements)]
    main = _main(judgements)
    css = {one.judgement.label: f"{one.css} m{place}" for place, one in enumerate(shown)}
    unit = UNITS[outcome.trace.resource]
    machines = [
        {"title": title, "picture": Markup(curves(comparison.film, machine, main.label, css, unit))}  # noqa: S704 - drawn by us, see plane
        for title, machine in chosen(comparison.film, main.label)
    ]
    return template(TEMPLATES, "backtest.html", settings=settings_text).render(
        report=report_of(outcome),
        shown=shown,
        main=main.label,
        unit=unit.name,
        machines=machines,
        plane=Markup(plane(shown, oracle)),  # noqa: S704 - drawn by us, texts are escaped in svg
        risks=Markup(risk_boxes(shown)),  # noqa: S704 - as plane
        savings=Markup(savings_boxes(shown)),  # noqa: S704 - as plane
    )


def _main(judgements: Sequence[Judgement]) -> Judgement:
    """The default model if it is among them, else the last one."""
    named = (one for one in judgements if one.label.partition(":")[0] == FAVOURITE)
    return next(named, judgements[-1])


def chosen(film: Film, label: str) -> Sequence[tuple[str, int]]:
    """The machines on which this model was worst, in the middle and best by shortfall, then by what it saved."""
    said, came = film.peaks[label], film.peaks[ORACLE]
    short = np.maximum(came - said, 0).sum(axis=0) / np.maximum(came.sum(axis=0), 1e-9)
    wasted = np.maximum(said - came, 0).sum(axis=0) / np.maximum(came.sum(axis=0), 1e-9)
    order = np.lexsort((wasted, short))
    picks = {"fell short the most": order[-1], "is in the middle": order[len(order) // 2], "did best": order[0]}
    found: dict[int, str] = {}
    for said_of_it, machine in picks.items():
        found.setdefault(int(machine), said_of_it)
    return [(f"Machine {machine}, where {label} {what}", machine) for machine, what in found.items()]


def settings_text(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
