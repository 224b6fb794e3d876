"""The result as JSON, schema `slackwater.policy-simulation/1` (docs/how-to/simulate-a-policy.md); only added to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field

from slackwater.simulation.domain.guard_tally import AboveFigures, Gap, GapKey, GuardFigures, GuardTally, NodeTally
from slackwater.simulation.edge.simulation_report import MOST_NODES, ReportPart
from slackwater.simulation.usecases.replay_policies import GuardReplayed, PolicySimulation
from slackwater.waterline.registry.metric import Dimension, MetricResource, Metrics

AN_AGE_AGO = 86_400 * 365
_BYTES = (MetricResource.MEMORY, MetricResource.BATCH_MEMORY_REQUEST, MetricResource.MID_MEMORY_REQUEST)


class ScenesReplayed(ReportPart):
    """The replayed history."""

    source: str
    nodes: int
    hours: float
    start: datetime | None = Field(description="null if the trace has no dates")
    period_seconds: float = Field(description="length of a sample or window, in which demand is constant")
    look_seconds: float = Field(description="control period; in service, the interval of reports")
    return_seconds: float | None = Field(description="time after which an evicted pod returns; null: never")
    carried_percent: int = Field(description="share of the work prevented by limits that is done later")
    notes: list[str]


class TimeAbove(ReportPart):
    """A waterline of any of the policies, and the time above it under this policy."""

    metric: str
    value: str = Field(description="exact, in `unit`")
    unit: str
    nodes: int = Field(
        description="nodes that it applies to and that have readings; 0: the history has no readings for it"
    )
    seconds: float = Field(description="seconds above it, summed over nodes")
    share: float
    episodes: int
    longest_episode_seconds: float


class ActionsOf(ReportPart):
    """Decisions of one reason, and the number of pods concerned."""

    decisions: int
    pods: int


class OpenGap(ReportPart):
    """A gap that could not be closed, with the reason."""

    kind: str
    metric: str
    because: str
    seconds: float = Field(description="summed over nodes")
    largest: float | None = Field(description="null: unknown")
    unit: str


class NodeGuarded(ReportPart):
    """One of the nodes that were above a waterline for longest."""

    node: str
    above_seconds: float = Field(description="time above its worst waterline")
    throttle_seconds: float
    evictions: int


class PolicyReplayed(ReportPart):
    """One policy: its documents and the result of the replay. Seconds are summed over pods or nodes."""

    name: str
    documents: list[dict[str, Any]]
    throttle_seconds: float = Field(description="pod time with a limit of ensurance")
    throttled_core_seconds: float = Field(description="work prevented by such limits")
    evictions: int
    returned: int = Field(description="evicted pods that returned")
    evicted_core_seconds: float = Field(description="demand of evicted pods while they were gone")
    closed_seconds: float = Field(description="node time closed to new pods")
    batch_core_hours: float = Field(description="usage of batch")
    prod_lacked_core_seconds: float
    unrelieved_seconds: float = Field(description="node time with a gap left open after all allowed actions")
    step_backs: int = Field(description="how often the guard of a pool withdrew its autonomy")
    waterlines: list[TimeAbove]
    actions: dict[str, ActionsOf] = Field(description="by reason")
    gaps: list[OpenGap]
    worst_nodes: list[NodeGuarded]


class PolicyDifference(ReportPart):
    """`name` minus `against`; `above_seconds` in the order of `waterlines`."""

    name: str
    against: str
    figures: dict[str, float]
    above_seconds: list[float]


class PolicyReport(ReportPart):
    """The output of `slackwater simulate -f nodeqos.yaml -o json`. The others are compared with the first policy."""

    schema_: Literal["slackwater.policy-simulation/1"] = Field(default="slackwater.policy-simulation/1", alias="schema")
    history: ScenesReplayed
    policies: list[PolicyReplayed]
    differences: list[PolicyDifference]


COMPARED = (
    "throttle_seconds",
    "throttled_core_seconds",
    "evictions",
    "returned",
    "evicted_core_seconds",
    "closed_seconds",
    "batch_core_hours",
    "prod_lacked_core_seconds",
    "unrelieved_seconds",
    "step_backs",
)


def policy_report_of(simulation: PolicySimulation) -> PolicyReport:
    """Builds the report from the simulation."""
    policies = [_policy(replay, simulation) for replay in simulation.replayed]
    first, *others = policies
    pairs = [(other, first) for other in others]
    if len(others) == 2:
        pairs.append((others[1], others[0]))
    return PolicyReport(
        history=_history(simulation),
        policies=policies,
        differences=[_difference(one, against) for one, against in pairs],
    )


def _history(simulation: PolicySimulation) -> ScenesReplayed:
    history, terms = simulation.history, simulation.terms
    return ScenesReplayed(
        source=history.title,
        nodes=len(history.nodes),
        hours=round(history.steps * history.period_seconds / 3600, 3),
        start=None if history.start_seconds < AN_AGE_AGO else datetime.fromtimestamp(history.start_seconds, UTC),
        period_seconds=history.period_seconds,
        look_seconds=terms.every_ms / 1000,
        return_seconds=None if terms.return_ms is None else terms.return_ms / 1000,
        carried_percent=terms.carried_percent,
        notes=[*history.notes, *simulation.remarks, *_unread(simulation)],
    )


def _unread(simulation: PolicySimulation) -> list[str]:
    """Returns a note for each metric without readings."""
    read = simulation.replayed[0].tally.figures().waterlines
    missing = sorted({one.waterline.metric for one in read if not one.nodes})
    return [f"the history has no readings of {metric}: rules on it do nothing" for metric in missing]


def _policy(replayed: GuardReplayed, simulation: PolicySimulation) -> PolicyReplayed:
    figures, metrics = replayed.tally.figures(), simulation.metrics
    return PolicyReplayed(
        name=replayed.variant.name,
        documents=[dict(document) for document in replayed.variant.documents],
        **{name: _rounded(getattr(figures, name)) for name in COMPARED},
        waterlines=[_above(part, metrics) for part in figures.waterlines],
        actions={
            reason.value: ActionsOf(decisions=part.decisions, pods=part.pods) for reason, part in figures.acted.items()
        },
        gaps=_gaps(figures, metrics),
        worst_nodes=[
            NodeGuarded(
                node=simulation.history.nodes[place].name,
                above_seconds=_longest(node) / 1000,
                throttle_seconds=node.limited_ms / 1000,
                evictions=node.evictions,
            )
            for place, node in worst(replayed.tally, MOST_NODES)
        ],
    )


def worst(tally: GuardTally, most: int) -> Sequence[tuple[int, NodeTally]]:
    """Returns the nodes that were above a waterline for longest, at most `most`."""
    order = sorted(enumerate(tally.nodes), key=lambda item: (-_longest(item[1]), item[0]))
    return [item for item in order[:most] if _longest(item[1])]


def _longest(node: NodeTally) -> int:
    return max((waterline.above_ms for waterline in node.waterlines), default=0)


def _above(figures: AboveFigures, metrics: Metrics) -> TimeAbove:
    metric = metrics.get(figures.waterline.metric)
    return TimeAbove(
        metric=figures.waterline.metric,
        value=f"{figures.waterline.value.normalize():f}",
        unit=Dimension.NUMBER if metric is None else metric.dimension,
        nodes=figures.nodes,
        seconds=figures.above_seconds,
        share=round(figures.share, 9),
        episodes=figures.episodes,
        longest_episode_seconds=figures.longest_episode_seconds,
    )


def _gaps(figures: GuardFigures, metrics: Metrics) -> list[OpenGap]:
    return [_gap(key, gap, metrics) for key, gap in figures.gaps.items()]


def _gap(key: GapKey, gap: Gap, metrics: Metrics) -> OpenGap:
    metric = metrics.get(key[1])
    resource = MetricResource.OTHER if metric is None else metric.resource
    unit = "bytes" if resource in _BYTES else "" if resource is MetricResource.OTHER else "milli-cores"
    largest = None if gap.largest is None else float(gap.largest)
    return OpenGap(
        kind=key[0], metric=key[1], because=key[2], seconds=gap.milliseconds / 1000, largest=largest, unit=unit
    )


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(value, 6)


def _difference(replayed: PolicyReplayed, against: PolicyReplayed) -> PolicyDifference:
    return PolicyDifference(
        name=replayed.name,
        against=against.name,
        figures={name: round(getattr(replayed, name) - getattr(against, name), 6) for name in COMPARED},
        above_seconds=[
            round(mine.seconds - theirs.seconds, 6)
            for mine, theirs in zip(replayed.waterlines, against.waterlines, strict=True)
        ],
    )
