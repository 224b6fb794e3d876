"""The measured effect of decisions: the metric in the first sample after the node had carried them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from slackwater.decisions.reasons import DecisionKind
from slackwater.ensurance.domain.node_state import Awaited, GuardedNode, measurable
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_reported import UsageReported
from slackwater.intents.controls import ENSURANCE
from slackwater.telemetry.spans import Attributes, span
from slackwater.waterline.analysis.sample_counters import reading_of
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.registry.metric import Metric, MetricFailed, Metrics


@dataclass(frozen=True, slots=True)
class Effect:
    """The event, published if the decision has a record, and the age of the decision's sample when it was decided."""

    event: Event[EffectMeasured]
    decision_age_seconds: float
    kind: str
    is_recorded: bool = True
    counts_missed: bool = True
    """Whether it counts for the pool's guard if it brought no relief."""

    @property
    def counts_for_the_pool(self) -> bool:
        """Whether the pool's guard takes it into account."""
        return self.kind == DecisionKind.EVICT and (self.event.data.relieved or self.counts_missed)


def measure_effects(
    guarded: GuardedNode,
    view: NodeReadings,
    report: Event[UsageReported],
    settle_seconds: float,
    now: datetime,
    metrics: Metrics,
) -> tuple[Sequence[Effect], GuardedNode]:
    """One event per decision whose effect this sample shows, and the node without them. A sample without the metric
    shows none."""
    ready, after = measurable(guarded, view.sampled_at, settle_seconds, now)
    effects = []
    for awaited in ready:
        metric = metrics.get(awaited.metric)
        reading = None if metric is None else _reading(metric, awaited, view)
        if metric is not None and reading is not None:
            effect = _effect(awaited, metric, view, reading)
            measured = _measured(effect, awaited, report, now)
            effects.append(_counted(measured, awaited))
    return effects, after


def _counted(measured: Event[EffectMeasured], awaited: Awaited) -> Effect:
    return Effect(
        measured,
        awaited.sample_age_seconds,
        awaited.kind,
        awaited.is_recorded,
        counts_missed=not awaited.has_expired_any,
    )


def _reading(metric: Metric, awaited: Awaited, view: NodeReadings) -> Decimal | None:
    try:
        return reading_of(metric, view, awaited.selector)
    except MetricFailed:
        return None


def _measured(
    effect: EffectMeasured, awaited: Awaited, report: Event[UsageReported], now: datetime
) -> Event[EffectMeasured]:
    """The event, caused by the report that shows the effect, in the trace of the decision."""
    attributes: Attributes = {
        "node": effect.node,
        "decision_id": effect.decision_id,
        "relieved": effect.relieved,
        "before": effect.before,
        "after": effect.after,
    }
    parent = awaited.traceparent or report.traceparent
    with span("ensurance measure effect", parent, attributes, links=(report.traceparent,)) as step:
        return event_of(effect, source=ENSURANCE.name, time=now, causedby=report, traceparent=step.traceparent)


def _effect(awaited: Awaited, metric: Metric, view: NodeReadings, reading: Decimal) -> EffectMeasured:
    actuated_at = awaited.actuated_at or view.sampled_at
    return EffectMeasured(
        decision_id=awaited.decision_id,
        node=view.node,
        metric=awaited.metric,
        before=awaited.before,
        after=float(reading),
        waterline=awaited.waterline,
        relieved=not metric.is_above(reading, exact(awaited.waterline)),
        actuated_at=actuated_at,
        measured_at=view.sampled_at,
        seconds_to_actuation=(actuated_at - awaited.decided_at).total_seconds(),
        seconds_to_measurement=(view.sampled_at - awaited.decided_at).total_seconds(),
    )
