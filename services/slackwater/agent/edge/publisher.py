"""Facts and reports of the agent into envelopes and out by the outgoing queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from slackwater.agent.edge.events import Envelopes
from slackwater.agent.edge.send_queue import Outgoing
from slackwater.agent.ports import Completion, Observed
from slackwater.agent.usecases.fit_payloads import FitPayloads
from slackwater.decisions.record import DecisionRecord
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported


@dataclass(frozen=True, slots=True)
class BusPublisher:
    """See slackwater.agent.ports.Publisher."""

    outgoing: Outgoing
    envelopes: Envelopes
    fit: FitPayloads = field(default_factory=FitPayloads)

    @property
    def waiting(self) -> int:
        return len(self.outgoing)

    def described(self, payload: NodeDescribed) -> None:
        self.outgoing.fact("described", self.envelopes.origin(self.fit(payload)))

    def observed(self, answers: Sequence[Observed]) -> None:
        for answer in answers:
            fitted = replace(answer, payload=self.fit(answer.payload))
            self.outgoing.fact(f"observed/{answer.payload.writer}", self.envelopes.observed(fitted))

    def decided(self, key: str, record: DecisionRecord, cause: Event[IntentDeclared] | None) -> None:
        self.outgoing.fact(key, self.envelopes.decided(record, cause))

    def completed(self, completion: Completion, stored: Callable[[], None]) -> None:
        fitted = replace(completion, payload=self.fit(completion.payload))
        self.outgoing.fact(f"eviction/{completion.payload.id}", self.envelopes.completed(fitted), stored)

    def reported(self, payload: UsageReported) -> None:
        self.outgoing.report(self.envelopes.report(self.fit(payload)))

    def disconnected(self) -> None:
        self.outgoing.mark_disconnected()
