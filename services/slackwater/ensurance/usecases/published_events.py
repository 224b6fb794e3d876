"""What ensurance publishes with a decision, in causal order: report -> decision -> intent."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import CpuThrottle, Eviction, LocalWaterline, WeightPolicy
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.intents.controls import ENSURANCE
from slackwater.intents.document import Content
from slackwater.waterline.rulebook import Rulebook


def decision_event(record: DecisionRecord, cause: Event[Any] | str | None) -> Event[DecisionRecorded]:
    return event_of(DecisionRecorded(record=record), source=ENSURANCE.name, time=record.decided_at, causedby=cause)


def scheduling_event(
    change: NodeSchedulingChanged, now: datetime, cause: Event[Any] | None
) -> Event[NodeSchedulingChanged]:
    return event_of(change, source=ENSURANCE.name, time=now, causedby=cause)


def intent_content(guarded: GuardedNode, rules: Rulebook, handover: str) -> Content:
    """What ensurance wants of a node under these rules. `handover` is what a disconnected agent decides by."""
    return Content(
        weights=WeightPolicy(rules.weights),
        throttles=tuple(
            CpuThrottle(pod_uid=throttled.uid, cpu_limit_milli=throttled.limit_milli, decision_id=decision_id)
            for throttled, decision_id in guarded.limits()
        ),
        evictions=tuple(
            Eviction(
                id=eviction.id,
                pod_uid=eviction.pod_uid,
                grace_seconds=eviction.grace_seconds,
                deadline=eviction.deadline,
                reason=eviction.reason,
                decision_id=eviction.decision_id,
            )
            for eviction in guarded.evictions
        ),
        waterlines=tuple(
            LocalWaterline(metric=rule.metric, value=float(rule.waterline))
            for node in rules.policies.nodes
            if node.selector is None or node.selector.matches(guarded.labels)
            for rule in node.rules
        ),
        rules=handover,
    )
