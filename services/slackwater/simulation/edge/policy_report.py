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
    """What was replayed."""

    source: str
    nodes: int
    hours: float
    start: datetime | None = Field(description="null where a trace does not say when it was")
    period_seconds: float = Field(description="how long wishes stay the same: a sample of the trace, a window")
    look_seconds: float = Field(description="how often each node is looked at within it: a report in service")
    return_seconds: float | None = Field(description="after which an evicted pod comes back; null: never")
    carried_percent: int = Field(description="of the work that limits kept back, done later")
    notes: list[str]


class TimeAbove(ReportPart):
    """A waterline that stands in any of the policies, and what was measured against it under this one."""

    metric: str
    value: str = Field(description="exact, in `unit`")
    unit: str
    nodes: int = Field(description="that it is drawn on and that have a reading; 0: nothing here is measured by it")
    seconds: float = Field(description="of single nodes, above it")
    share: float
    episodes: int
    longest_episode_seconds: float


class ActionsOf(ReportPart):
    """Decisions of one reason, and how many pods they were about."""

    decisions: int
    pods: int


class OpenGap(ReportPart):
    """What could not be closed, and why."""

    kind: str
    metric: str
    because: str
    seconds: float = Field(description="of single nodes")
    largest: float | None = Field(description="null: it could not be told")
    unit: str


class NodeGuarded(ReportPart):
    """A node that was long above a waterline."""

    node: str
    above_seconds: float = Field(description="of the waterline that it was above longest")
    throttle_seconds: float
    evictions: int


class PolicyReplayed(ReportPart):
    """One policy: its documents and what became of the history under it. Seconds are of single pods or nodes."""

    name: str
    documents: list[dict[str, Any]]
    throttle_seconds: float = Field(description="of pods that have a limit of ours")
    throttled_core_seconds: float = Field(description="what such limits kept from being done")
    evictions: int
    returned: int = Field(description="evicted pods that came back")
    evicted_core_seconds: float = Field(description="what evicted pods would have done while they were gone")
    closed_seconds: float = Field(description="of nodes that were closed for new pods")
    batch_core_hours: float = Field(description="what batch did")
    prod_lacked_core_seconds: float
    unrelieved_seconds: float = Field(description="of nodes with a gap that stayed open after all that could be done")
    step_backs: int = Field(description="how often the guard of a pool took its evictions away")
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
    """The whole answer of `slackwater simulate -f nodeqos.yaml -o json`. The first policy is what the others are
    compared with."""

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
    """From what was replayed to what is shown."""
    policies = [_policy(one, simulation) for one in simulation.replayed]
    first, *others = policies
    pairs = [(one, first) for one in others]
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
    """Metrics of which nothing is known here."""
    read = simulation.replayed[0].tally.figures().waterlines
    missing = sorted({one.waterline.metric for one in read if not one.nodes})
    return [f"nothing here is known of {metric}: its rules rest" for metric in missing]


def _policy(one: GuardReplayed, simulation: PolicySimulation) -> PolicyReplayed:
    found, metrics = one.tally.figures(), simulation.metrics
    return PolicyReplayed(
        name=one.variant.name,
        documents=[dict(document) for document in one.variant.documents],
        **{name: _rounded(getattr(found, name)) for name in COMPARED},
        waterlines=[_above(each, metrics) for each in found.waterlines],
        actions={
            reason.value: ActionsOf(decisions=each.decisions, pods=each.pods) for reason, each in found.acted.items()
        },
        gaps=_gaps(found, metrics),
        worst_nodes=[
            NodeGuarded(
                node=simulation.history.nodes[place].name,
                above_seconds=_longest(node) / 1000,
                throttle_seconds=node.limited_ms / 1000,
                evictions=node.evictions,
            )
            for place, node in worst(one.tally, MOST_NODES)
        ],
    )


def worst(tally: GuardTally, most: int) -> Sequence[tuple[int, NodeTally]]:
    """The nodes that were longest above a waterline; only those that ever were."""
    order = sorted(enumerate(tally.nodes), key=lambda item: (-_longest(item[1]), item[0]))
    return [item for item in order[:most] if _longest(item[1])]


def _longest(node: NodeTally) -> int:
    return max((one.above_ms for one in node.waterlines), default=0)


def _above(one: AboveFigures, metrics: Metrics) -> TimeAbove:
    metric = metrics.get(one.waterline.metric)
    return TimeAbove(
        metric=one.waterline.metric,
        value=f"{one.waterline.value.normalize():f}",
        unit=Dimension.NUMBER if metric is None else metric.dimension,
        nodes=one.nodes,
        seconds=one.above_seconds,
        share=round(one.share, 9),
        episodes=one.episodes,
        longest_episode_seconds=one.longest_episode_seconds,
    )


def _gaps(found: GuardFigures, metrics: Metrics) -> list[OpenGap]:
    return [_gap(key, gap, metrics) for key, gap in found.gaps.items()]


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


def _difference(one: PolicyReplayed, against: PolicyReplayed) -> PolicyDifference:
    return PolicyDifference(
        name=one.name,
        against=against.name,
        figures={name: round(getattr(one, name) - getattr(against, name), 6) for name in COMPARED},
        above_seconds=[
            round(mine.seconds - theirs.seconds, 6)
            for mine, theirs in zip(one.waterlines, against.waterlines, strict=True)
        ],
    )
