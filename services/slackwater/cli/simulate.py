"""`slackwater simulate`: what another strategy would have offered, on recorded history or on a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.backtest import days_of
from slackwater.cli.output import Column, Item, errors_to_stderr, message, print_object, table
from slackwater.cli.output import Format as Shown
from slackwater.cli.progress import Stages, progress_bar
from slackwater.cli.prometheus_options import seconds_of
from slackwater.cli.trace_options import (
    ChurnOption,
    FormatOption,
    Output,
    OutputOption,
    PageOption,
    PerNodeOption,
    ResourceOption,
    SeedOption,
    TraceOption,
    check_page,
)
from slackwater.model.errors import InvalidInput
from slackwater.model.time import SystemClock
from slackwater.traces.choices import Resource

if TYPE_CHECKING:
    from slackwater.simulation.service import Simulation


def command(
    files: Annotated[
        list[Path], typer.Option("-f", "--filename", help="a ColocationStrategy; two are compared; - is stdin")
    ],
    since: Annotated[
        str | None, typer.Option("--since", metavar="24h", help="replay what was recorded: 24h, 90m, 7d")
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="5m", help="of what was recorded; default: every window")
    ] = None,
    trace: TraceOption = None,
    form: FormatOption = None,
    resource: ResourceOption = None,
    model: Annotated[
        str, typer.Option("--model", help="that predicts peaks on a trace; NAME:SETTING=VALUE gives settings")
    ] = "workload-profile",
    per_node: PerNodeOption = None,
    churn: ChurnOption = "none",
    seed: SeedOption = 1,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="DAY", help="count from this day of the trace (8, 2013-08-09)")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="DAY", help="… up to this one")] = None,
    output: OutputOption = Output.TABLE,
    html: PageOption = None,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Replay history under another strategy: what it would have lent, and when that would have been too much.

    Example: `slackwater simulate -f careful.yaml -f bold.yaml --since 24h --html report.html`
    """
    with errors_to_stderr():
        from slackwater.simulation.edge.simulation_report import report_of
        from slackwater.simulation.service import TraceOrder, simulate_trace

        check_page(html)
        if (trace is None) is (since is None):
            raise InvalidInput(
                "give --trace PATH with its --format, or --since 24h for what was recorded", field="since"
            )
        if trace is None:
            found = _recorded(files, since or "", step, server)
        elif form is None:
            raise InvalidInput("--format: is missing; it says how the trace is written", field="format")
        else:
            order = TraceOrder(
                path=trace,
                form=form,
                resources=tuple(Resource) if resource is None else (resource,),
                per_node=per_node,
                churn_days=days_of(churn),
                seed=seed,
                model=model,
                since=begin,
                until=end,
            )
            with progress_bar() as bar:
                found = simulate_trace(files, order, Stages(bar))
        answer = report_of(found).model_dump(mode="json", by_alias=True)
        if html is not None:
            from slackwater.simulation.edge.simulation_page import page

            html.write_text(page(found), encoding="utf-8")
            message(f"wrote {html}")
        if output is Output.JSON:
            print_object(answer, Shown.JSON)
        else:
            print("\n".join(lines(answer)))


def _recorded(files: Sequence[Path], since: str, step: str | None, server: str | None) -> Simulation:
    from slackwater.cli.client import HttpReader, reading
    from slackwater.simulation.service import RecordedOrder, simulate_recorded

    seconds, apart = seconds_of(since, "since"), None if step is None else seconds_of(step, "step")
    with reading(server) as reader, progress_bar() as bar:
        if not isinstance(reader, HttpReader):
            raise InvalidInput("--since needs a running instance: start one with `slackwater up`, or give --trace")
        return simulate_recorded(files, RecordedOrder(reader, seconds, apart), SystemClock().now(), Stages(bar))


def lines(answer: Item) -> list[str]:
    """What was replayed, a table for each resource, and how to read it."""
    shown = [*heading(answer["history"])]
    for resource, unit in (("cpu", "core-hours"), ("memory", "GiB-hours")):
        if any(one[resource]["capacity_hours"] for one in answer["strategies"]):
            shown += ["", *figures(answer, resource, unit)]
    return [*shown, "", *LEGEND]


def heading(history: Item) -> list[str]:
    when = f" from {history['start']}" if history["start"] else ""
    every = f"offers every {history['period_seconds']:g} s"
    what = f"{history['source']}: {history['nodes']} nodes, {history['hours']:,g} hours{when}, {every}"
    return [what, *history["notes"]]


def figures(answer: Item, resource: str, unit: str) -> list[str]:
    """One row a figure, one column a strategy; last what the last one differs by."""
    strategies, last = answer["strategies"], answer["differences"][-1]
    one = strategies[0][resource]
    rows = [
        {
            "what": said.format(unit=unit),
            "values": [text(value) for value in (each[resource][name] for each in strategies)],
            "difference": signed(text, last[resource][name]),
        }
        for name, said, text in FIGURES
        if not name.startswith("mid") or any(each[resource]["mid_hours"] for each in strategies)
    ]
    columns = [
        Column(resource.upper(), lambda row: str(row["what"])),
        *(_value(place, each["name"]) for place, each in enumerate(strategies)),
        Column(f"{last['name']} - {last['against']}", lambda row: str(row["difference"]), right=True),
    ]
    known = (
        f"capacity {_hours(one['capacity_hours'])} {unit}, prod used {one['prod_hours'] / one['capacity_hours']:.1%}"
    )
    return [known, *table(rows, columns, wide=False, headers=True)]


def _value(place: int, name: str) -> Column:
    return Column(name, lambda row: str(row["values"][place]), right=True)


def signed(text: Callable[[float], str], value: float) -> str:
    """With its sign, unless it is shown as nothing."""
    said = text(abs(value))
    return said if said == text(0.0) else f"{'+' if value > 0 else '-'}{said}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _one(value: float) -> str:
    return f"{value:,.2f}"


def _hours(value: float) -> str:
    return _one(value) if abs(value) < 100 else _count(value)


def _share(value: float) -> str:
    return f"{value * 100:.2f}%"


def _small(value: float) -> str:
    return f"{value * 100:.3f}%"


FIGURES = (
    ("batch_hours", "offered to batch, {unit}", _hours),
    ("mid_hours", "offered to mid, {unit}", _hours),
    ("reclaimed_share", "share of the capacity", _share),
    ("exceeded_minutes", "node minutes beyond capacity", _count),
    ("exceeded_share", "share of node minutes", _small),
    ("any_node_minutes", "minutes with any such node", _count),
    ("longest_episode_minutes", "longest episode, minutes", _count),
    ("excess_hours", "too much by, {unit}", _one),
    ("changes_per_hour", "changes an hour and node", _one),
)
LEGEND: Sequence[str] = [
    "Beyond capacity: prod as it was, and every offer used to its last unit, were more than the node has. Nobody",
    "throttles here and nothing is given back before the next offer: it is what the offers alone would have done.",
]
