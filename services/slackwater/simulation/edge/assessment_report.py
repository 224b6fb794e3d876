"""The result as JSON, schema `slackwater.assessment/1` (docs/how-to/assess.md); fields are only ever added."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from slackwater.simulation.domain.risk import RatedChoice
from slackwater.simulation.domain.worth import Prices, ratio_of, worth_of
from slackwater.simulation.edge.recommended_documents import documents_of
from slackwater.simulation.edge.simulation_report import ReportPart
from slackwater.simulation.usecases.assess import Assessment, NodeAssessed, ResourceAssessed
from slackwater.simulation.usecases.placed_usage import PLACES
from slackwater.simulation.usecases.workload_usage import WorkloadAssessed
from slackwater.traces.options import UNITS, TraceResource
from slackwater.traces.trace import DAY_CELLS

_NO_PRICES = Prices()


class Used(ReportPart):
    """Usage over all five-minute cells, in milli-cores or bytes."""

    p50: int
    p95: int
    max: int


class ChoiceJudged(ReportPart):
    """One tested setting, evaluated on later data than it was computed from. Shares and rates are 0..1."""

    percent: int = Field(description="cpuReclaimThresholdPercent or memoryReclaimThresholdPercent")
    model: str = Field(description="peak model with its settings")
    reclaimable_share: float = Field(description="of the capacity")
    reclaimable_hours: float = Field(description="core-hours or GiB-hours")
    violation: float | None = Field(description="share of instants whose next 24 h exceeded the predicted peak")
    severity: float | None = Field(description="shortfall as a share of the actual peak, mean over all instants")
    exceeded_share: float = Field(
        description="share of node minutes in which prod plus all offers exceeded the capacity"
    )
    exceeded_minutes: float
    longest_episode_minutes: float
    changes_per_hour: float = Field(description="published offers per node and hour")


class Recommended(ReportPart):
    """The recommended setting, with the reason."""

    percent: int
    model: str
    reason: str


class ResourceReport(ReportPart):
    """One resource over all nodes, in milli-cores or bytes."""

    capacity: int
    requested: int = Field(description="the mean over time")
    used: Used
    choices: list[ChoiceJudged] = Field(description="the default setting first")
    recommendation: Recommended | None = Field(description="null: even the default setting exceeded the accepted risk")


class NodeResource(ReportPart):
    """One resource of one node."""

    capacity: int
    requested: int
    used: Used
    reclaimable_share: float = Field(description="of its capacity, with the recommended setting, else with the default")
    exceeded_minutes: float


class NodeReport(ReportPart):
    """One node."""

    node: str
    cpu: NodeResource | None
    memory: NodeResource | None


class WorkloadResource(ReportPart):
    """One resource of one workload, summed over its pods."""

    requested: int = Field(description="the mean over the cells in which it ran")
    used: Used
    slack: int = Field(description="requested minus used at p95; negative: it uses more than it requests")


class WorkloadReport(ReportPart):
    """One workload."""

    workload: str
    pods: int
    cpu: WorkloadResource | None
    memory: WorkloadResource | None


class WorthReport(ReportPart):
    """What the recommended settings could lend, as means over the evaluated time; 0 of a resource without a
    recommendation."""

    cores: float | None = Field(description="could be lent; null: CPU was not assessed")
    gib: float | None = Field(description="could be lent; null: memory was not assessed")
    usable_cores: float | None = Field(
        default=None, description="of cores, those whose memory could be lent too; null: CPU was not assessed"
    )
    usable_gib: float | None = Field(
        default=None, description="of gib, what comes with usable_cores; null: memory was not assessed"
    )
    gib_per_core: float | None = Field(
        default=None, description="memory assumed with each core; null: one resource alone was assessed"
    )
    ratio_from: Literal["option", "requests", "nodes"] | None = Field(
        default=None, description="where gib_per_core is from: --gib-per-core, all requests, or the mean node"
    )
    nodes: float = Field(description="mean nodes of this fleet that run the same jobs as the usable amounts")
    limited_by: str = Field(description="the resource that ends first: cpu or memory; empty: one alone was assessed")
    per_month: float | None = Field(
        description="usable amounts for 730 hours at the given price, in its currency; null: no price fits"
    )


class AssessmentReport(ReportPart):
    """The output of `slackwater assess -o json`."""

    schema_: Literal["slackwater.assessment/1"] = Field(default="slackwater.assessment/1", alias="schema")
    source: str
    start: datetime | None
    days: float
    judged_from_day: float = Field(description="earlier days are warm-up")
    accepted: float = Field(description="accepted share of node minutes beyond capacity")
    warnings: list[str]
    cpu: ResourceReport | None
    memory: ResourceReport | None
    nodes: list[NodeReport]
    workloads: list[WorkloadReport] = Field(default_factory=list)
    worth: WorthReport | None = None
    documents: list[dict[str, Any]] = Field(
        default_factory=list, description="what to apply for the recommendation; empty: nothing is recommended"
    )


LEAST_SHARE = 0.002
"""Of the nodes, as what jobs could use together; with less, nothing is recommended."""


def assessment_of(
    assessment: Assessment, prices: Prices = _NO_PRICES, pool: str | None = None, gib_per_core: float | None = None
) -> AssessmentReport:
    """Builds the report from the assessment; the documents are for `pool`, or (None) for the whole cluster."""
    trace = assessment.placed.any_trace
    resources = {kind.value: _resource(resource) for kind, resource in assessment.resources.items()}
    there = {kind.value: PLACES[kind] for kind in assessment.resources}
    worth = _worth(assessment, prices, gib_per_core)
    return AssessmentReport(
        source=assessment.placed.title,
        start=None if trace.start_seconds < 86_400 * 365 else datetime.fromtimestamp(trace.start_seconds, UTC),
        days=round(trace.days, 3),
        judged_from_day=round(assessment.first / DAY_CELLS, 4),
        accepted=assessment.accepted,
        warnings=list(assessment.warnings),
        cpu=resources.get("cpu"),
        memory=resources.get("memory"),
        nodes=[
            NodeReport(
                node=node.name,
                cpu=_of_node(node, there["cpu"]) if "cpu" in there else None,
                memory=_of_node(node, there["memory"]) if "memory" in there else None,
            )
            for node in assessment.nodes
        ],
        workloads=[
            WorkloadReport(
                workload=workload.name,
                pods=workload.pods,
                cpu=_of_workload(workload, there["cpu"]) if "cpu" in there else None,
                memory=_of_workload(workload, there["memory"]) if "memory" in there else None,
            )
            for workload in assessment.workloads
        ],
        worth=worth,
        documents=list(documents_of(assessment, pool)) if worth.nodes >= LEAST_SHARE * len(assessment.nodes) else [],
    )


MOST_WORKLOADS = 15


def widest(workloads: Sequence[WorkloadReport], most: int = MOST_WORKLOADS) -> Sequence[WorkloadReport]:
    """Returns the workloads with the most slack of CPU, or of memory where only that was assessed."""

    def slack(report: WorkloadReport) -> int:
        resource = report.cpu or report.memory
        return resource.slack if resource is not None else 0

    return sorted(workloads, key=lambda workload: (-slack(workload), workload.workload))[:most]


def _resource(assessed: ResourceAssessed) -> ResourceReport:
    advice = assessed.advice
    return ResourceReport(
        capacity=assessed.capacity,
        requested=assessed.requested,
        used=_used(assessed.used),
        choices=[_choice(rated) for rated in assessed.judged],
        recommendation=advice
        and Recommended(percent=advice.choice.percent, model=advice.choice.model, reason=advice.reason),
    )


def _of_workload(workload: WorkloadAssessed, place: int) -> WorkloadResource:
    requested, used = workload.requested[place], workload.used[place]
    return WorkloadResource(requested=requested, used=_used(used), slack=requested - used[1])


def _worth(assessment: Assessment, prices: Prices, gib_per_core: float | None) -> WorthReport:
    lent, sizes, requested = (dict[TraceResource, float]() for _ in range(3))
    for resource, one in assessment.resources.items():
        step = UNITS[resource].step
        chosen = next((rated for rated in one.judged if one.advice and rated.choice == one.advice.choice), None)
        lent[resource] = 0.0 if chosen is None else chosen.reclaimable_share * one.capacity / step
        requested[resource] = one.requested / step
        sizes[resource] = one.capacity / step / max(1, len(assessment.nodes))
    cpu, memory = TraceResource.CPU, TraceResource.MEMORY
    node = sizes.get(cpu, 0.0), sizes.get(memory, 0.0)
    ratio = ratio_of(gib_per_core, (requested.get(cpu, 0.0), requested.get(memory, 0.0)), node)
    worth = worth_of(lent.get(cpu), lent.get(memory), node, ratio, prices)
    return WorthReport(
        cores=_rounded(worth.cores),
        gib=_rounded(worth.gib),
        usable_cores=_rounded(worth.usable_cores),
        usable_gib=_rounded(worth.usable_gib),
        gib_per_core=_rounded(worth.ratio.gib_per_core) if worth.ratio else None,
        ratio_from=worth.ratio.source if worth.ratio else None,
        nodes=round(worth.nodes, 3),
        limited_by=worth.limited_by,
        per_month=None if worth.per_month is None else round(worth.per_month, 2),
    )


def _rounded(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 3)


def _used(quantiles: tuple[int, int, int]) -> Used:
    return Used(p50=quantiles[0], p95=quantiles[1], max=quantiles[2])


def _choice(rated: RatedChoice) -> ChoiceJudged:
    return ChoiceJudged(
        percent=rated.choice.percent,
        model=rated.choice.model,
        reclaimable_share=round(rated.reclaimable_share, 6),
        reclaimable_hours=round(rated.reclaimable_hours, 3),
        violation=None if rated.violation is None else round(rated.violation, 6),
        severity=None if rated.severity is None else round(rated.severity, 6),
        exceeded_share=round(rated.exceeded_share, 8),
        exceeded_minutes=round(rated.exceeded_minutes, 3),
        longest_episode_minutes=round(rated.longest_episode_minutes, 3),
        changes_per_hour=round(rated.changes_per_hour, 4),
    )


def _of_node(node: NodeAssessed, place: int) -> NodeResource:
    return NodeResource(
        capacity=node.capacity[place],
        requested=node.requested[place],
        used=_used(node.used[place]),
        reclaimable_share=round(node.reclaimable_share[place], 6),
        exceeded_minutes=round(node.exceeded_minutes[place], 3),
    )
