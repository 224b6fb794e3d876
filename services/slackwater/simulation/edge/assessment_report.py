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
    """Over all cells of five minutes: milli-cores or bytes."""

    p50: int
    p95: int
    max: int


class ChoiceJudged(ReportPart):
    """One way to lend, judged on data that it had not seen. Shares and rates are 0..1."""

    percent: int = Field(description="of a node that may be in use: cpu- or memoryReclaimThresholdPercent")
    model: str = Field(description="that predicts peaks, with its settings")
    reclaimable_share: float = Field(description="of the capacity")
    reclaimable_hours: float = Field(description="core-hours or GiB-hours")
    violation: float | None = Field(description="share of moments after which 24 h came that went above the peak")
    severity: float | None = Field(description="by which share of what came it was short, mean over all moments")
    exceeded_share: float = Field(description="of node minutes: prod and every offer above the capacity")
    exceeded_minutes: float
    longest_episode_minutes: float
    changes_per_hour: float = Field(description="offers told, for each node and hour")


class Recommended(ReportPart):
    """What is advised, and why."""

    percent: int
    model: str
    reason: str


class ResourceReport(ReportPart):
    """All nodes together, in milli-cores or bytes."""

    capacity: int
    requested: int = Field(description="the mean over time")
    used: Used
    choices: list[ChoiceJudged] = Field(description="the usual way first")
    recommendation: Recommended | None = Field(description="null: even the usual way was too much")


class NodeResource(ReportPart):
    """One resource of one node."""

    capacity: int
    requested: int
    used: Used
    reclaimable_share: float = Field(description="of its capacity, as recommended, else the usual way")
    exceeded_minutes: float


class NodeReport(ReportPart):
    """One node."""

    node: str
    cpu: NodeResource | None
    memory: NodeResource | None


class AssessmentReport(ReportPart):
    """The whole answer of `slackwater assess -o json`."""

    schema_: Literal["slackwater.assessment/1"] = Field(default="slackwater.assessment/1", alias="schema")
    source: str
    start: datetime | None
    days: float
    judged_from_day: float = Field(description="before it models only learn")
    accepted: float = Field(description="share of node minutes that may be beyond capacity")
    warnings: list[str]
    cpu: ResourceReport | None
    memory: ResourceReport | None
    nodes: list[NodeReport]


def assessment_of(found: Assessment) -> AssessmentReport:
    """From what was found to what is shown."""
    trace = found.placed.any_trace
    resources = {each.value: _resource(one) for each, one in found.resources.items()}
    there = {each.value: PLACES[each] for each in found.resources}
    return AssessmentReport(
        source=found.placed.title,
        start=None if trace.start_seconds < 86_400 * 365 else datetime.fromtimestamp(trace.start_seconds, UTC),
        days=round(trace.days, 3),
        judged_from_day=round(found.first / DAY_CELLS, 4),
        accepted=found.accepted,
        warnings=list(found.warnings),
        cpu=resources.get("cpu"),
        memory=resources.get("memory"),
        nodes=[
            NodeReport(
                node=node.name,
                cpu=_of_node(node, there["cpu"]) if "cpu" in there else None,
                memory=_of_node(node, there["memory"]) if "memory" in there else None,
            )
            for node in found.nodes
        ],
    )


def counted_days(found: Assessment) -> float:
    """For how long choices were judged."""
    return (found.placed.cells - found.first) * CELL_SECONDS / 86_400


def _resource(one: ResourceAssessed) -> ResourceReport:
    advice = one.advice
    return ResourceReport(
        capacity=one.capacity,
        requested=one.requested,
        used=_used(one.used),
        choices=[_choice(each) for each in one.judged],
        recommendation=advice
        and Recommended(percent=advice.choice.percent, model=advice.choice.model, reason=advice.reason),
    )


def _used(quantiles: tuple[int, int, int]) -> Used:
    return Used(p50=quantiles[0], p95=quantiles[1], max=quantiles[2])


def _choice(one: RatedChoice) -> ChoiceJudged:
    return ChoiceJudged(
        percent=one.choice.percent,
        model=one.choice.model,
        reclaimable_share=round(one.reclaimable_share, 6),
        reclaimable_hours=round(one.reclaimable_hours, 3),
        violation=None if one.violation is None else round(one.violation, 6),
        severity=None if one.severity is None else round(one.severity, 6),
        exceeded_share=round(one.exceeded_share, 8),
        exceeded_minutes=round(one.exceeded_minutes, 3),
        longest_episode_minutes=round(one.longest_episode_minutes, 3),
        changes_per_hour=round(one.changes_per_hour, 4),
    )


def _of_node(node: NodeAssessed, place: int) -> NodeResource:
    return NodeResource(
        capacity=node.capacity[place],
        requested=node.requested[place],
        used=_used(node.used[place]),
        reclaimable_share=round(node.reclaimable_share[place], 6),
        exceeded_minutes=round(node.exceeded_minutes[place], 3),
    )
