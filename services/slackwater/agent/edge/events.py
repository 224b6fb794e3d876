"""Payloads into envelopes: source, time, cause and trace."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TypeVar

from slackwater.agent.usecases.converge import Observed
from slackwater.agent.usecases.evict import Completion
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved
from slackwater.model.time import Clock

P = TypeVar("P", bound=Payload)


def new_traceparent() -> str:
    """A W3C trace context that begins here: a report is where every chain of decisions starts."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Stamps this agent's payloads."""

    node: str
    clock: Clock

    @property
    def source(self) -> str:
        return f"agent/{self.node}"

    def origin(self, payload: P) -> Event[P]:
        """A payload that nothing on the bus caused: facts and reports."""
        return event_of(payload, source=self.source, time=self.clock.now(), traceparent=new_traceparent())

    def observed(self, observed: Observed) -> Event[IntentObserved]:
        return event_of(observed.payload, source=self.source, time=self.clock.now(), causedby=observed.cause)

    def completed(self, completion: Completion) -> Event[EvictionCompleted]:
        return event_of(
            completion.payload,
            source=self.source,
            time=completion.payload.completed_at,
            causedby=completion.cause or None,
            id=completion.event_id,
        )
