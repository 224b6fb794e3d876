"""Renders the result as one self-contained HTML file, without network access or scripts."""

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
DEFAULT_MODEL = "workload-profile"
"""The page selects its example machines by the errors of this model, and draws its curve first."""


def page(outcome: BacktestOutcome) -> str:
    """Renders the page. Raises ValueError if the outcome has no film."""
    comparison = outcome.comparison
    if comparison.film is None:
        raise ValueError("the page needs the film of a placement")
    oracle, *judgements = comparison.judgements
    shown = [ShownModel(judgement, f"c{place % COLOURS}") for place, judgement in enumerate(judgements)]
    main = _main(judgements)
    css = {model.judgement.label: f"{model.css} m{place}" for place, model in enumerate(shown)}
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
    """Returns the default model if it was evaluated, else the last model."""
    named = (judgement for judgement in judgements if judgement.label.partition(":")[0] == DEFAULT_MODEL)
    return next(named, judgements[-1])


def chosen(film: Film, label: str) -> Sequence[tuple[str, int]]:
    """Returns the machines with the largest, the median and the smallest error of a model, with a title for each.

    Machines are ordered by shortfall, then by excess.
    """
    predicted, actual = film.peaks[label], film.peaks[ORACLE]
    shortfall = np.maximum(actual - predicted, 0).sum(axis=0) / np.maximum(actual.sum(axis=0), 1e-9)
    excess = np.maximum(predicted - actual, 0).sum(axis=0) / np.maximum(actual.sum(axis=0), 1e-9)
    order = np.lexsort((excess, shortfall))
    picks = {"largest error": order[-1], "median error": order[len(order) // 2], "smallest error": order[0]}
    ranks: dict[int, str] = {}
    for rank, machine in picks.items():
        ranks.setdefault(int(machine), rank)
    return [(f"Machine {machine}: {rank} of {label}", machine) for machine, rank in ranks.items()]


def settings_text(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
