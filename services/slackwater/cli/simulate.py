"""`slackwater simulate`: replays recorded history or a trace with another strategy or policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.backtest import days_of
from slackwater.cli.explicit_options import refuse_given
from slackwater.cli.output import Format as Shown
from slackwater.cli.output import Item, TableColumn, errors_to_stderr, message, print_object, table
from slackwater.cli.policy_options import (
    BatchOption,
    BatchPodsOption,
    CapacityOption,
    CarryOverOption,
    ControlOption,
    OvercommitOption,
    PolicyOptions,
    ReturnOption,
)
from slackwater.cli.progress import Stages, progress_bar
from slackwater.cli.prometheus_options import seconds_of
from slackwater.cli.simulated_moves import lines as move_lines
from slackwater.cli.simulated_policies import lines as policy_lines
from slackwater.cli.simulated_quotas import capacity_of
from slackwater.cli.simulated_quotas import lines as quota_lines
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
from slackwater.model.plurals import counted, plural
from slackwater.model.time import SystemClock
from slackwater.traces.options import TraceResource

if TYPE_CHECKING:
    from slackwater.cli.client import HttpReader
    from slackwater.simulation.adapters.document_files import DocumentFile
    from slackwater.simulation.settings import TraceOrder


FilesOption = Annotated[
    list[Path],
    typer.Option(
        "-f",
        "--filename",
        help="ColocationStrategy, NodeQOS, PodQOS …, ElasticQuota or DeschedulerProfile; two are compared; - is stdin",
    ),
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="24h", help="replay recorded history: 24h, 90m, 7d")
]
StepOption = Annotated[
    str | None, typer.Option("--step", metavar="5m", help="interval of recorded history; default: every window")
]
ModelOption = Annotated[str, typer.Option("--model", help="peak model for a trace; NAME:SETTING=VALUE sets a setting")]
BeginOption = Annotated[
    str | None, typer.Option("--from", metavar="DAY", help="first day of the trace that counts (8, 2013-08-09)")
]
EndOption = Annotated[str | None, typer.Option("--to", metavar="DAY", help="last day that counts")]
ServerOption = Annotated[
    str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
]


_NOT_OF_QUOTAS = (
    *("step", "form", "resource", "model", "per_node", "churn", "seed", "begin", "end"),
    *("batch", "batch_pods", "overcommit", "comes_back", "carry_over"),
)
_NOT_OF_PROFILES = ("step", "model", "batch", "batch_pods", "control", "comes_back", "carry_over", "capacity")
_OF_TRACES = ("form", "resource", "model", "per_node", "churn", "seed", "begin", "end")


def command(
    context: typer.Context,
    files: FilesOption,
    since: SinceOption = None,
    step: StepOption = None,
    trace: TraceOption = None,
    form: FormatOption = None,
    resource: ResourceOption = None,
    model: ModelOption = "workload-profile",
    per_node: PerNodeOption = None,
    churn: ChurnOption = "none",
    seed: SeedOption = 1,
    begin: BeginOption = None,
    end: EndOption = None,
    batch: BatchOption = None,
    batch_pods: BatchPodsOption = None,
    overcommit: OvercommitOption = None,
    control: ControlOption = None,
    comes_back: ReturnOption = None,
    carry_over: CarryOverOption = None,
    capacity: CapacityOption = None,
    output: OutputOption = Output.TABLE,
    html: PageOption = None,
    server: ServerOption = None,
) -> None:
    """Replay history with other documents. A ColocationStrategy: what it would have lent, and when that exceeded the
    capacity. Policies (NodeQOS, PodQOS, AvoidanceAction, Autonomy): how long pods would have been throttled, how many
    evicted, and how long nodes would have been above a waterline. Quotas (ElasticQuota, QuotaProfile): how long the
    arrivals of a trace would have waited, beside hard quotas. Descheduler profiles: hotspots, moves and imbalance,
    beside doing nothing and plain thresholds.

    Example: `slackwater simulate -f careful.yaml -f bold.yaml --since 24h --html report.html`

    Example: `slackwater simulate -f nodeqos.yaml --trace rnd.parquet --format bitbrains --overcommit 6`

    Example: `slackwater simulate -f quotas.yaml --trace alibaba_openb_2023 --html report.html`
    """
    with errors_to_stderr():
        from slackwater.simulation.adapters.document_files import are_policies, are_profiles, are_quotas, load
        from slackwater.simulation.settings import TraceOrder

        check_page(html)
        if (trace is None) is (since is None):
            raise InvalidInput(
                "no history is named; give --trace PATH, or --since 24h for recorded history",
                field="since",
            )
        order, resources = None, tuple(TraceResource) if resource is None else (resource,)
        if trace is None:
            refuse_given(
                context, _OF_TRACES, "applies only to --trace; recorded history has its own nodes and predictions"
            )
        else:
            refuse_given(context, ("server",), "applies only to --since, the recorded history")
            order = TraceOrder(trace, form, resources, per_node, days_of(churn), seed, model, begin, end)
        options = PolicyOptions(batch, batch_pods, overcommit, control, comes_back, carry_over)
        loaded = load(files)
        asked = SimulationRequest(loaded, order, since or "", step, server)
        if are_profiles(loaded):
            refuse_given(context, _NOT_OF_PROFILES, "does not apply to descheduler profiles, which these files hold")
            answer = _moves(asked, overcommit, html)
        elif are_quotas(loaded):
            refuse_given(context, _NOT_OF_QUOTAS, "applies to strategies and policies, and these files hold quotas")
            answer = _quotas(asked, capacity, control, html)
        else:
            refuse_given(context, ("capacity",), "applies to quotas (ElasticQuota), and these files hold none")
            answer = _policies(asked, options, html) if are_policies(loaded) else _strategies(asked, options, html)
        _print(answer, output, html)


def _print(answer: Item, output: Output, html: Path | None) -> None:
    if html is not None:
        message(f"wrote {html}")
    if output is Output.JSON:
        print_object(answer, Shown.JSON)
        return
    texts = {"results": quota_lines, "policies": policy_lines, "moved": move_lines}
    text = next((text for part, text in texts.items() if part in answer), lines)
    print("\n".join(text(answer)))


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """The data to replay: a trace, or (None) the recorded history."""

    files: Sequence[DocumentFile]
    order: TraceOrder | None
    since: str
    step: str | None
    server: str | None

    @contextmanager
    def recorded(self) -> Iterator[HttpReader]:
        """The instance that recorded the history. Raises InvalidInput if none runs."""
        from slackwater.cli.client import HttpReader, reading

        with reading(self.server) as reader:
            if not isinstance(reader, HttpReader):
                raise InvalidInput(
                    "--since needs a running instance: start one with `slackwater up`, or give --trace", field="since"
                )
            yield reader


def _strategies(asked: SimulationRequest, options: PolicyOptions, html: Path | None) -> Item:
    from slackwater.simulation.edge.simulation_report import report_of
    from slackwater.simulation.service import simulate_recorded, simulate_trace
    from slackwater.simulation.settings import RecordedOrder

    options.refuse_all()
    if asked.order is not None:
        if asked.step is not None:
            raise InvalidInput(
                "--step: applies to --since, recorded history; a trace has a sample every 5m", field="step"
            )
        with progress_bar() as bar:
            simulation = simulate_trace(asked.files, asked.order, Stages(bar))
    else:
        seconds = seconds_of(asked.since, "since")
        apart = None if asked.step is None else seconds_of(asked.step, "step")
        with asked.recorded() as reader, progress_bar() as bar:
            order = RecordedOrder(reader, seconds, apart)
            simulation = simulate_recorded(asked.files, order, SystemClock().now(), Stages(bar))
    if html is not None:
        from slackwater.simulation.edge.simulation_page import page

        html.write_text(page(simulation), encoding="utf-8")
    return report_of(simulation).model_dump(mode="json", by_alias=True)


def _policies(asked: SimulationRequest, options: PolicyOptions, html: Path | None) -> Item:
    from slackwater.simulation.edge.policy_report import policy_report_of
    from slackwater.simulation.service import simulate_policies_on_trace, simulate_policies_recorded

    if asked.step is not None:
        raise InvalidInput("--step: applies to strategies; policies are replayed on every window", field="step")
    if asked.order is not None:
        given = options.terms(asked.order.seed)
        with progress_bar() as bar:
            simulation = simulate_policies_on_trace(asked.files, asked.order, given, Stages(bar))
    else:
        options.refuse_those_of_traces()
        given, seconds = options.terms(1), seconds_of(asked.since, "since")
        with asked.recorded() as reader, progress_bar() as bar:
            now = SystemClock().now()
            simulation = simulate_policies_recorded(asked.files, reader, seconds, given, now, Stages(bar))
    if html is not None:
        from slackwater.simulation.edge.policy_page import policy_page

        html.write_text(policy_page(simulation), encoding="utf-8")
    return policy_report_of(simulation).model_dump(mode="json", by_alias=True)


def _moves(asked: SimulationRequest, overcommit: float | None, html: Path | None) -> Item:
    from slackwater.simulation.edge.move_report import move_report_of
    from slackwater.simulation.service import simulate_moves

    if asked.order is None:
        raise InvalidInput("--since: descheduler profiles are replayed on a trace; give --trace PATH", field="since")
    with progress_bar() as bar:
        simulation = simulate_moves(asked.files, asked.order, overcommit or 1.0, Stages(bar))
    if html is not None:
        from slackwater.simulation.edge.move_page import move_page

        html.write_text(move_page(simulation), encoding="utf-8")
    return move_report_of(simulation).model_dump(mode="json", by_alias=True)


def _quotas(asked: SimulationRequest, capacity: str | None, control: str | None, html: Path | None) -> Item:
    from slackwater.simulation.edge.quota_report import quota_report_of
    from slackwater.simulation.service import simulate_quotas
    from slackwater.simulation.settings import quota_terms

    if asked.order is None:
        raise InvalidInput("--since: quotas are replayed on the arrivals of a trace; give --trace PATH", field="since")
    terms = quota_terms(
        None if capacity is None else capacity_of(capacity), None if control is None else seconds_of(control, "control")
    )
    with progress_bar() as bar:
        simulation = simulate_quotas(asked.files, asked.order.path, terms, Stages(bar))
    if html is not None:
        from slackwater.simulation.edge.quota_page import quota_page

        html.write_text(quota_page(simulation), encoding="utf-8")
    return quota_report_of(simulation).model_dump(mode="json", by_alias=True)


def lines(answer: Item) -> list[str]:
    """The text report: what was replayed, a table for each resource, and how to read it."""
    shown = [*heading(answer["history"])]
    for resource, unit in (("cpu", "core-hours"), ("memory", "GiB-hours")):
        if any(strategy[resource]["capacity_hours"] for strategy in answer["strategies"]):
            shown += ["", *figures(answer, resource, unit)]
    return [*shown, "", *LEGEND]


def heading(history: Item) -> list[str]:
    when = f" from {history['start']}" if history["start"] else ""
    every = f"offers every {history['period_seconds']:g} s"
    nodes = f"{counted(history['nodes'], 'node')}"
    hours = f"{history['hours']:,g} {plural(history['hours'], 'hour')}"
    what = f"{history['source']}: {nodes}, {hours}{when}, {every}"
    return [what, *history["notes"]]


def figures(answer: Item, resource: str, unit: str) -> list[str]:
    """One row per figure, one column per strategy; the last column is the difference of the last strategy."""
    strategies, last = answer["strategies"], answer["differences"][-1]
    one = strategies[0][resource]
    rows = [
        {
            "what": said.format(unit=unit),
            "values": [text(value) for value in (strategy[resource][name] for strategy in strategies)],
            "difference": signed(text, last[resource][name]),
        }
        for name, said, text in FIGURES
        if not name.startswith("mid") or any(strategy[resource]["mid_hours"] for strategy in strategies)
    ]
    columns = [
        TableColumn(resource.upper(), lambda row: str(row["what"])),
        *(_value(place, each["name"]) for place, each in enumerate(strategies)),
        TableColumn(f"{last['name']} - {last['against']}", lambda row: str(row["difference"]), right=True),
    ]
    known = (
        f"capacity {_hours(one['capacity_hours'])} {unit}, prod used {one['prod_hours'] / one['capacity_hours']:.1%}"
    )
    return [known, *table(rows, columns, wide=False, headers=True)]


def _value(place: int, name: str) -> TableColumn:
    return TableColumn(name, lambda row: str(row["values"][place]), right=True)


def signed(text: Callable[[float], str], value: float) -> str:
    """The text with its sign; without a sign if it is displayed as zero."""
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
    ("excess_hours", "excess, {unit}", _one),
    ("changes_per_hour", "changes per hour and node", _one),
)
LEGEND: Sequence[str] = [
    "Beyond capacity: recorded usage of prod plus all offers, fully used, exceeded the node's capacity. The replay",
    "does not throttle and reclaims nothing before the next offer: it shows the effect of the offers alone.",
]
