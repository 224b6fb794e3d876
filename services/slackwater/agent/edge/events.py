"""Payloads into envelopes: source, time, cause and trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from slackwater.agent.domain.tracing import TraceBudget
from slackwater.agent.ports import Completion, Observed
from slackwater.decisions.record import DecisionRecord
from slackwater.events.agent_decision_recorded import AgentDecisionRecorded
from slackwater.events.envelope import Event, Payload, agent_source, event_of
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import URGENT_TRIGGER
from slackwater.model.time import Clock
from slackwater.telemetry.spans import Attributes, new_traceparent, root_span

P = TypeVar("P", bound=Payload)


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Stamps this agent's payloads."""

    node: str
    clock: Clock
    traces: TraceBudget = field(default_factory=TraceBudget)

    @property
    def source(self) -> str:
        return agent_source(self.node)

    def origin(self, payload: P) -> Event[P]:
        """A payload that no event caused. It has a trace of its own, which is not exported."""
        traceparent = new_traceparent(sampled=False)
        return event_of(payload, source=self.source, time=self.clock.now(), traceparent=traceparent)

    def report(self, payload: UsageReported) -> Event[UsageReported]:
        """Every trace from measurement to actuation begins at a report."""
        urgent = payload.trigger == URGENT_TRIGGER
        attributes: Attributes = {
            "node": self.node,
            "sequence": payload.sequence,
            "trigger": payload.trigger,
            "pods": len(payload.pods),
        }
        exported = self.traces.grant(urgent, self.clock.monotonic())
        with root_span("agent report", attributes, exported=exported, started_at=payload.sampled_at) as step:
            return event_of(payload, source=self.source, time=self.clock.now(), traceparent=step.traceparent)

    def observed(self, observed: Observed) -> Event[IntentObserved]:
        return event_of(observed.payload, source=self.source, time=self.clock.now(), causedby=observed.cause)

    def decided(self, record: DecisionRecord, cause: Event[IntentDeclared] | None) -> Event[AgentDecisionRecorded]:
        """A decision of this agent by the rules that came with `cause`; None: by its own."""
        return event_of(
            AgentDecisionRecorded(record=record),
            source=self.source,
            time=record.decided_at,
            causedby=None if cause is None else cause.id,
            traceparent=new_traceparent(sampled=False),
        )

    def completed(self, completion: Completion) -> Event[EvictionCompleted]:
        return event_of(
            completion.payload,
            source=self.source,
            time=completion.payload.completed_at,
            causedby=completion.cause or None,
            traceparent=completion.traceparent or new_traceparent(sampled=False),
            id=completion.event_id,
        )
