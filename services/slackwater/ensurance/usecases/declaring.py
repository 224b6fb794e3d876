"""The events that go out with a decision, in their causal order: report -> decision -> intent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.guarded import Guarded
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import CpuThrottle, Eviction, IntentDeclared, LocalWaterline, WeightPolicy
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.waterline.rulebook import Rulebook

SOURCE = "ensurance"


@dataclass(frozen=True, slots=True)
class Terms:
    """What an intent says beside what is wanted. `epoch` is that of our lease on the node, `handover` what its agent
    goes on with if it is cut off. `left`: we do not hear the node, so what we want of it holds for no time."""

    rules: Rulebook
    epoch: int
    handover: str = ""
    left: bool = False


def recorded(record: DecisionRecord, cause: Event[Any] | str | None) -> Event[DecisionRecorded]:
    return event_of(DecisionRecorded(record=record), source=SOURCE, time=record.decided_at, causedby=cause)


def scheduling_told(
    told: NodeSchedulingChanged, now: datetime, cause: Event[Any] | None
) -> Event[NodeSchedulingChanged]:
    return event_of(told, source=SOURCE, time=now, causedby=cause)


def declared(
    guarded: Guarded, terms: Terms, lease_seconds: float, now: datetime, cause: Event[Any] | str | None
) -> Event[IntentDeclared]:
    """The whole intent of one node: an agent that reads only this knows all that we want."""
    intent = IntentDeclared(
        node=guarded.node,
        writer=SOURCE,
        generation=guarded.generation,
        epoch=terms.epoch,
        declared_at=now,
        lease_seconds=0.0 if terms.left else lease_seconds,
        weights=WeightPolicy(terms.rules.weights),
        throttles=tuple(
            CpuThrottle(pod_uid=throttled.uid, cpu_limit_milli=throttled.limit_milli, decision_id=decision_id)
            for throttled, decision_id in guarded.limits()
        ),
        evictions=tuple(
            Eviction(
                id=one.id,
                pod_uid=one.pod_uid,
                grace_seconds=one.grace_seconds,
                deadline=one.deadline,
                reason=one.reason,
                decision_id=one.decision_id,
            )
            for one in guarded.evictions
        ),
        waterlines=tuple(
            LocalWaterline(metric=rule.metric, value=float(rule.waterline))
            for node in terms.rules.policies.nodes
            if node.selector is None or node.selector.matches(guarded.labels)
            for rule in node.rules
        ),
        rules=terms.handover,
    )
    return event_of(intent, source=SOURCE, time=now, causedby=cause)
