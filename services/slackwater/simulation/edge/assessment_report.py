"""The result as JSON, schema `slackwater.assessment/1` (docs/how-to/assess.md); fields are only ever added."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from slackwater.simulation.domain.risk import RatedChoice
from slackwater.simulation.edge.simulation_report import ReportPart
from slackwater.simulation.usecases.assess import Assessment, NodeAssessed, ResourceAssessed
from slackwater.simulation.usecases.placed_usage import PLACES
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS


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


def assessment_of(assessment: Assessment) -> AssessmentReport:
    """Builds the report from the assessment."""
    trace = assessment.placed.any_trace
    resources = {kind.value: _resource(resource) for kind, resource in assessment.resources.items()}
    there = {kind.value: PLACES[kind] for kind in assessment.resources}
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
    )


def counted_days(assessment: Assessment) -> float:
    """Returns the evaluated time in days."""
    return (assessment.placed.cells - assessment.first) * CELL_SECONDS / 86_400


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
