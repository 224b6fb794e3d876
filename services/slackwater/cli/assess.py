"""`slackwater assess`: estimates what could be lent and at which risk, from existing data. It installs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.backtest import days_of
from slackwater.cli.credentials import Credentials
from slackwater.cli.explicit_options import refuse_given
from slackwater.cli.output import Format as Shown
from slackwater.cli.output import Item, TableColumn, cpu, errors_to_stderr, memory, message, print_object, table
from slackwater.cli.progress import Stages, progress_bar
from slackwater.cli.prometheus_options import (
    PROOF_OPTIONS,
    BearerOption,
    CaOption,
    CertOption,
    InsecureOption,
    KeyOption,
    RetriesOption,
    SelectorOption,
    SinceOption,
    StepOption,
    TimeoutOption,
    UrlOption,
    client,
    seconds_of,
)
from slackwater.cli.trace_options import (
    ChurnOption,
    FormatOption,
    PageOption,
    PerNodeOption,
    ResourceOption,
    SeedOption,
    TraceOption,
    check_page,
)
from slackwater.model.errors import InvalidInput
from slackwater.model.plurals import counted
from slackwater.model.time import SystemClock
from slackwater.traces.options import TraceResource

if TYPE_CHECKING:
    from slackwater.simulation.settings import AssessmentOptions
    from slackwater.simulation.usecases.assess import Assessment

MOST_NODES = 15


class AssessOutput(StrEnum):
    """`json` has a documented schema; `yaml` is what `slackwater apply -f -` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


AssessOutputOption = Annotated[
    AssessOutput, typer.Option("-o", "--output", help="json follows a documented schema; yaml is ready to apply")
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option("--model", help="model to test instead of the defaults; NAME:SETTING=VALUE; repeatable"),
]
PercentsOption = Annotated[
    list[int] | None, typer.Option("--percent", help="reclaim threshold to test instead of the defaults; repeatable")
]
AcceptOption = Annotated[
    float, typer.Option("--accept", metavar="SHARE", help="accepted share of node minutes beyond capacity")
]
PoolOption = Annotated[
    str | None, typer.Option("--pool", help="node pool that the documents are for; default: the whole cluster")
]
CorePriceOption = Annotated[float | None, typer.Option("--price-core-hour", help="price of a core for an hour")]
GibPriceOption = Annotated[float | None, typer.Option("--price-gib-hour", help="price of a GiB for an hour")]
NodePriceOption = Annotated[
    float | None, typer.Option("--price-node-month", help="price of a node for a month, instead of the others")
]
GibPerCoreOption = Annotated[
    float | None,
    typer.Option("--gib-per-core", help="memory that jobs take with each core; default: as the history's requests"),
]

_OF_TRACES = ("form", "resource", "per_node", "churn", "seed")
_OF_PROMETHEUS = ("selector", "since", "step", "bearer", "ca", "cert", "key", "insecure", "timeout", "retries")


def command(
    context: typer.Context,
    trace: TraceOption = None,
    form: FormatOption = None,
    resource: ResourceOption = None,
    per_node: PerNodeOption = None,
    churn: ChurnOption = "none",
    seed: SeedOption = 1,
    prometheus: UrlOption = None,
    selector: SelectorOption = "",
    since: SinceOption = "7d",
    step: StepOption = "5m",
    bearer: BearerOption = None,
    ca: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    insecure: InsecureOption = False,
    timeout: TimeoutOption = "30s",
    retries: RetriesOption = 3,
    models: ModelsOption = None,
    percents: PercentsOption = None,
    accept: AcceptOption = 0.001,
    pool: PoolOption = None,
    gib_per_core: GibPerCoreOption = None,
    price_core_hour: CorePriceOption = None,
    price_gib_hour: GibPriceOption = None,
    price_node_month: NodePriceOption = None,
    output: AssessOutputOption = AssessOutput.TABLE,
    html: PageOption = None,
) -> None:
    """Estimate what could be lent and at which risk, from a trace or from Prometheus. Reads only; nothing is installed.

    Example: `slackwater assess --prometheus http://prometheus:9090 --since 14d --html report.html`
    """
    with errors_to_stderr():
        from slackwater.simulation import service, settings

        check_page(html)
        prices = settings.prices_of(price_core_hour, price_gib_hour, price_node_month)
        tried = settings.AssessmentOptions(
            tuple(models or settings.MODELS), tuple(percents or ()), accept, prices, pool, gib_per_core
        )
        if prometheus is not None and trace is not None:
            raise InvalidInput("--trace and --prometheus exclude each other: give only one", field="trace")
        if prometheus is not None:
            refuse_given(context, _OF_TRACES, "applies only to --trace; Prometheus has the placement of pods")
            proof = Credentials(None, bearer, ca, cert, key, PROOF_OPTIONS)
            with (
                client(prometheus, proof, seconds_of(timeout, "timeout"), insecure=insecure) as asking,
                progress_bar() as bar,
            ):
                order = settings.PrometheusOrder(
                    asking, seconds_of(since, "since"), seconds_of(step, "step"), retries, selector
                )
                assessment = service.assess_prometheus(order, tried, SystemClock().now().timestamp(), Stages(bar))
        elif trace is None:
            raise InvalidInput("give --trace PATH or --prometheus URL", field="trace")
        else:
            refuse_given(context, _OF_PROMETHEUS, "applies only to --prometheus; a trace is read completely")
            of_trace = settings.TraceOrder(
                path=trace,
                form=form,
                resources=tuple(TraceResource) if resource is None else (resource,),
                per_node=per_node,
                churn_days=days_of(churn),
                seed=seed,
            )
            with progress_bar() as bar:
                assessment = service.assess_trace(of_trace, tried, Stages(bar))
        _show(assessment, tried, output, html)


def _show(found: Assessment, tried: AssessmentOptions, output: AssessOutput, html: Path | None) -> None:
    from slackwater.simulation.edge.assessment_report import assessment_of, widest
    from slackwater.simulation.edge.recommended_documents import text_of

    report = assessment_of(found, tried.prices, tried.pool, tried.gib_per_core)
    answer = report.model_dump(mode="json", by_alias=True)
    if html is not None:
        from slackwater.simulation.edge.assessment_page import page

        html.write_text(page(found, tried.prices, tried.pool, tried.gib_per_core), encoding="utf-8")
        message(f"wrote {html}")
    if output is AssessOutput.JSON:
        print_object(answer, Shown.JSON)
    elif output is AssessOutput.YAML:
        if not report.documents:
            raise InvalidInput("nothing is recommended, so there is no document to apply; see -o table", field="output")
        print(text_of(report.documents), end="")
    else:
        shown = [one.model_dump(mode="json") for one in widest(report.workloads)]
        print("\n".join([*lines(answer), "", *of_workloads(answer, shown), "", *LEGEND]))


def lines(answer: Item) -> list[str]:
    """The text report: what was read, what could be lent, the advice, the nodes."""
    when = f" from {answer['start']}" if answer["start"] else ""
    days = f"{answer['days']:.1f} days{when}; evaluated from day {answer['judged_from_day']:g}"
    shown = [
        f"{answer['source']}: {counted(len(answer['nodes']), 'node')}, {days}",
        *(f"! {warning}" for warning in answer["warnings"]),
    ]
    for name, say in (("cpu", cpu), ("memory", memory)):
        if answer[name] is not None:
            shown += ["", *of_resource(name, answer[name], say)]
    return [*shown, "", *of_worth(answer), "", *of_nodes(answer)]


def of_worth(answer: Item) -> list[str]:
    """What the recommendation could lend together, and how to put it in force."""
    worth = answer["worth"]
    usable = amounts(worth["usable_cores"], worth["usable_gib"])
    money = "" if worth["per_month"] is None else f", {worth['per_month']:,.2f} a month at the given price"
    found = [f"TOGETHER: {usable} usable on average: as much as {worth['nodes']:.1f} of these nodes{money}"]
    if worth["limited_by"]:
        found.append(
            f"  limited by {worth['limited_by']}: {amounts(worth['cores'], worth['gib'])} could be lent, and jobs are "
            f"assumed to take {worth['gib_per_core']:.3g} GiB with a core ({RATIO_SOURCES[worth['ratio_from']]})"
        )
    if answer["documents"]:
        names = " and ".join(f"{one['kind']} {one['metadata']['name']}" for one in answer["documents"])
        found.append(f"  in force with {names}: run this again with -o yaml, pipe it to slackwater apply -f -")
    elif any(answer[name] is not None and answer[name]["recommendation"] is not None for name in ("cpu", "memory")):
        found.append("  not worth a document: none is recommended, although each resource by itself could be lent")
    return found


def amounts(cores: float | None, gib: float | None) -> str:
    """Returns the amounts of the resources that were assessed."""
    parts = [f"{amount:.1f} {unit}" for amount, unit in ((cores, "cores"), (gib, "GiB")) if amount is not None]
    return " and ".join(parts)


def of_workloads(answer: Item, shown: Sequence[Item]) -> list[str]:
    """A table of the workloads with the most slack; the JSON has all workloads."""
    if not shown:
        return []
    columns = [
        TableColumn("WORKLOAD", lambda one: str(one["workload"])),
        TableColumn("PODS", lambda one: str(one["pods"]), right=True),
    ]
    for name, say in (("cpu", cpu), ("memory", memory)):
        if answer[name] is not None:
            columns += _workload_columns(name, say)
    more = len(answer["workloads"]) - len(shown)
    rest = [f"… and {more} more: -o json has all"] if more > 0 else []
    return [*table(shown, columns, wide=False, headers=True), *rest]


def _workload_columns(name: str, say: Any) -> Sequence[TableColumn]:
    return [
        TableColumn(name.upper(), lambda one: say(one[name]["requested"]), right=True),
        TableColumn("P50", lambda one: say(one[name]["used"]["p50"]), right=True),
        TableColumn("P95", lambda one: say(one[name]["used"]["p95"]), right=True),
        TableColumn("MAX", lambda one: say(one[name]["used"]["max"]), right=True),
        TableColumn("SLACK", lambda one: say(one[name]["slack"]), right=True),
    ]


def of_resource(name: str, figures: Item, say: Any) -> list[str]:
    """The figures over all nodes, a table of the tested settings, and the recommendation."""
    whole, used = figures["capacity"], figures["used"]

    def of(amount: int) -> str:
        return f"{say(amount)} ({amount / whole:.0%})" if whole else say(amount)

    head = (
        f"{name.upper()}: capacity {say(whole)}, requested {of(figures['requested'])}, "
        f"used p50 {of(used['p50'])}, p95 {of(used['p95'])}, max {of(used['max'])}"
    )
    advised = figures["recommendation"]
    field = "cpuReclaimThresholdPercent" if name == "cpu" else "memoryReclaimThresholdPercent"
    advice = (
        ["recommended: nothing, because even the default settings exceed the capacity for longer than is accepted"]
        if advised is None
        else [f"recommended: {field}: {advised['percent']} with {advised['model']}", f"  because {advised['reason']}"]
    )
    return [head, *table(figures["choices"], CHOICES, wide=False, headers=True), *advice]


def of_nodes(answer: Item) -> list[str]:
    """A table of the nodes with the most reclaimable capacity; the JSON has all nodes."""
    there = [name for name in ("cpu", "memory") if answer[name] is not None]
    ordered = sorted(answer["nodes"], key=lambda node: -float(node[there[0]]["reclaimable_share"]))
    columns = [TableColumn("NODE", lambda node: str(node["node"]))]
    for name, say in (("cpu", cpu), ("memory", memory)):
        if name in there:
            columns += _node_columns(name, say)
    more = len(ordered) - MOST_NODES
    rest = [f"… and {more} more: -o json has all"] if more > 0 else []
    return [*table(ordered[:MOST_NODES], columns, wide=False, headers=True), *rest]


def _node_columns(name: str, say: Any) -> Sequence[TableColumn]:
    def share(node: Item, value: float) -> str:
        whole = node[name]["capacity"]
        return f"{value / whole:.0%}" if whole else "-"

    return [
        TableColumn(name.upper(), lambda node: say(node[name]["capacity"]), right=True),
        TableColumn("REQUESTED", lambda node: share(node, node[name]["requested"]), right=True),
        TableColumn("P50", lambda node: share(node, node[name]["used"]["p50"]), right=True),
        TableColumn("P95", lambda node: share(node, node[name]["used"]["p95"]), right=True),
        TableColumn("MAX", lambda node: share(node, node[name]["used"]["max"]), right=True),
        TableColumn("RECLAIMABLE", lambda node: f"{node[name]['reclaimable_share']:.1%}", right=True),
        TableColumn("BEYOND", lambda node: f"{node[name]['exceeded_minutes']:g}m", right=True),
    ]


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.2f}%"


CHOICES = [
    TableColumn("IN USE", lambda rated: f"{rated['percent']}%", right=True),
    TableColumn("MODEL", lambda rated: str(rated["model"])),
    TableColumn("RECLAIMABLE", lambda rated: f"{rated['reclaimable_share']:.1%}", right=True),
    TableColumn("VIOLATION", lambda rated: _rate(rated["violation"]), right=True),
    TableColumn("SEVERITY", lambda rated: _rate(rated["severity"]), right=True),
    TableColumn("BEYOND", lambda rated: f"{rated['exceeded_share'] * 100:.3f}%", right=True),
    TableColumn("LONGEST", lambda rated: f"{rated['longest_episode_minutes']:g}m", right=True),
]
RATIO_SOURCES = {
    "option": "--gib-per-core",
    "requests": "as the requests; --gib-per-core assumes another",
    "nodes": "as the nodes; --gib-per-core assumes another",
}
LEGEND: Sequence[str] = [
    "IN USE: highest share of a node that prod's predicted peak and all offers together take. RECLAIMABLE: share of",
    "the capacity. VIOLATION: share of instants whose next 24 hours exceeded the predicted peak; SEVERITY: shortfall",
    "as a share of the actual peak, over all instants. BEYOND: share of node minutes in which the recorded usage of",
    "prod plus all offers, fully used, exceeded the node's capacity; LONGEST: longest run of them. A model is",
    "evaluated only on data after its prediction. SLACK: requested minus used at p95, of a workload's pods together.",
]
