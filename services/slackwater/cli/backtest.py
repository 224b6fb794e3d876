"""`slackwater backtest`: evaluates peak models on a recorded trace, beside a perfect forecast."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.output import Format as Shown
from slackwater.cli.output import Item, TableColumn, errors_to_stderr, message, print_object, table
from slackwater.cli.progress import progress_bar
from slackwater.cli.trace_options import FormatOption, Output, OutputOption
from slackwater.model.errors import InvalidInput
from slackwater.model.plurals import counted, plural
from slackwater.traces.options import TraceResource

if TYPE_CHECKING:
    from rich.progress import Progress


def _list_models(wanted: bool) -> None:
    if wanted:
        from slackwater.backtest.adapters.predictors import described

        print("\n".join(described()))
        raise typer.Exit


def command(
    trace: Annotated[Path, typer.Option("--trace", metavar="PATH", help="a file of the trace, or its folder")],
    form: FormatOption = None,
    resource: Annotated[TraceResource, typer.Option("--resource", help="resource to evaluate")] = TraceResource.CPU,
    models: Annotated[
        str, typer.Option("--models", help="all, or names separated by commas; NAME:SETTING=VALUE sets a setting")
    ] = "all",
    per_machine: Annotated[
        int | None,
        typer.Option("--vms-per-node", help="default 20, or 1 if the trace has whole machines"),
    ] = None,
    churn: Annotated[str, typer.Option("--churn", metavar="none|2d", help="mean stay on a machine: 2d, 12h")] = "none",
    seeds: Annotated[int, typer.Option("--seeds", help="number of random placements; figures are means over them")] = 5,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="DAY", help="evaluate from this day (8, 2013-08-09); default day 8 or 2"),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="DAY", help="last day; default: a day before the end")
    ] = None,
    wrong_keys: Annotated[
        float, typer.Option("--wrong-keys", metavar="SHARE", help="0.1: predict 10 % from another workload's history")
    ] = 0.0,
    output: OutputOption = Output.TABLE,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="write an HTML page with charts")] = None,
    list_models: Annotated[
        bool,
        typer.Option("--list-models", callback=_list_models, is_eager=True, help="list all models and their settings"),
    ] = False,
) -> None:
    """Compare peak models on a recorded trace: how often they were too low, by how much, and what they save.

    Example: `slackwater backtest --trace usage.csv --format csv --models all --html report.html`
    """
    with errors_to_stderr():
        churn_days = days_of(churn)
        from slackwater.backtest.edge.report_model import report_of
        from slackwater.backtest.service import Order, run

        if html is not None and not html.parent.is_dir():
            raise InvalidInput(f"--html: folder {html.parent} does not exist; create it or name another", field="html")
        order = Order(
            trace=trace,
            form=form,
            resource=resource,
            models=models,
            per_machine=per_machine,
            churn_days=churn_days,
            seeds=seeds,
            wrong_keys=wrong_keys,
            since=since,
            until=until,
            filmed=html is not None,
        )
        with progress_bar() as bar:
            outcome = run(order, BacktestProgressBar(bar))
        answer = report_of(outcome).model_dump(mode="json", by_alias=True)
        if html is not None:
            from slackwater.backtest.edge.page import page

            html.write_text(page(outcome), encoding="utf-8")
            message(f"wrote {html}")
        if output is Output.JSON:
            print_object(answer, Shown.JSON)
        else:
            print("\n".join(lines(answer)))


def days_of(churn: str) -> float | None:
    """Days from a duration such as `2d` or `12h`; None for `none`. Raises InvalidInput."""
    if churn == "none":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([dh])", churn)
    if match is None or float(match[1]) == 0:
        raise InvalidInput(f"--churn: {churn!r} is not allowed; none, or a mean stay: 2d, 12h", field="churn")
    return float(match[1]) / (1 if match[2] == "d" else 24)


class BacktestProgressBar:
    """Forwards the progress that the backtest reports to the progress bar."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("reading the trace", total=None)

    def begin(self, cells: int) -> None:
        self._bar.update(self._task, description="evaluating", total=cells)

    def advance(self, cells: int) -> None:
        self._bar.advance(self._task, cells)


def lines(answer: Item) -> list[str]:
    """The text report: the data that was used, a table of models, and how to read it."""
    return [*heading(answer), "", *table(answer["models"], COLUMNS, wide=False, headers=True), "", *LEGEND]


def heading(answer: Item) -> list[str]:
    trace, placed, when = answer["trace"], answer["placement"], answer["evaluated"]
    if placed["per_machine"] == 1:
        layout = f"{counted(placed['machines'], 'machine')}, one series each"
    else:
        churn = f"mean stay {placed['churn_days']:g} days" if placed["churn_days"] else "no churn"
        most = min(placed["per_machine"], trace["series"])
        layout = f"{most} on each of {counted(placed['machines'], 'machine')}, {churn}"
    wrong = f", {placed['wrong_keys']:.0%} wrong keys" if placed["wrong_keys"] else ""
    drawn = "1 placement" if placed["placements"] == 1 else f"{placed['placements']} placements"
    return [
        f"{trace['file']} ({trace['format']}), {trace['resource']}: {trace['series']} series, {trace['days']:.1f} days",
        f"{layout}{wrong}; {drawn}; day {when['from_day']:g} to {when['to_day']:g}",
        repair_text(trace["repairs"]),
    ]


def repair_text(repairs: Item) -> str:
    """The repairs of the trace: the number of rows of each, with their share of all rows."""
    rows = repairs["rows"]
    parts = [
        f"{repairs[name]:,} {text}" + ("" if name in ("filled", "empty_series") else f" ({repairs[name] / rows:.1%})")
        for name, text in REPAIRS.items()
        if repairs[name]
    ]
    return f"{rows:,} {plural(rows, 'row')}" + (f"; {', '.join(parts)}" if parts else "")


REPAIRS = {
    "unusable": "left out",
    "over_limit": "above their limit",
    "doubled": "in a cell with another row",
    "filled": "cells filled",
    "empty_series": "series without a usable row",
}


def _percent(value: float) -> str:
    """A percentage with two significant digits, so that 0.03 % and 30 % are both readable."""
    return f"{value * 100:.2f}%"


def _range(spread: Any) -> str:
    return f"{spread['least'] * 100:.1f}..{spread['greatest'] * 100:.1f}"


COLUMNS = [
    TableColumn("MODEL", lambda model: str(model["model"])),
    TableColumn("VIOLATION", lambda model: _percent(model["violation"]["mean"]), right=True),
    TableColumn("SEEDS", lambda model: _range(model["violation"]), right=True),
    TableColumn("P50", lambda model: _percent(model["violation_by_machine"]["p50"]), right=True),
    TableColumn("P90", lambda model: _percent(model["violation_by_machine"]["p90"]), right=True),
    TableColumn("WORST", lambda model: _percent(model["violation_by_machine"]["worst"]), right=True),
    TableColumn("SEVERITY", lambda model: _percent(model["severity"]["mean"]), right=True),
    TableColumn("SAVINGS", lambda model: _percent(model["savings"]["mean"]), right=True),
    TableColumn("SEEDS", lambda model: _range(model["savings"]), right=True),
    TableColumn("P10", lambda model: _percent(model["savings_by_machine"]["p10"]), right=True),
    TableColumn("SECONDS", lambda model: f"{model['seconds']:.1f}", right=True),
]
LEGEND = [
    "VIOLATION: share of instants whose next 24 hours exceeded the prediction; P50, P90, WORST by machine.",
    "SEVERITY: shortfall of the prediction as a share of the actual peak, mean over all instants. SAVINGS: share of",
    "the limits that the prediction leaves free; P10 by machine. SEEDS: minimum and maximum over the placements.",
]
