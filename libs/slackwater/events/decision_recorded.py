"""decision.recorded: a decision with everything that is needed to explain and replay it."""

from __future__ import annotations

from typing import Any, ClassVar

from slackwater.decisions.record import DecisionRecord
from slackwater.events.envelope import Event, Payload, event_of


class DecisionRecorded(Payload):
    """A decision record, written to the outbox in the transaction of the decision. The console stores it."""

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "decision.recorded"
    STREAM: ClassVar[str] = "DECISIONS"
    FROM_AGENT: ClassVar[bool] = True
    ALSO_FROM: ClassVar[frozenset[str]] = frozenset({"prediction", "colocation", "ensurance"})

    record: DecisionRecord

    def key(self) -> str:
        return f"{self.record.node}/{self.record.id}"

    def shard_key(self) -> str:
        return self.record.node


def decision_event(record: DecisionRecord, cause: Event[Any] | str | None, source: str) -> Event[DecisionRecorded]:
    """Returns the event of a decision, at the time of the decision."""
    return event_of(DecisionRecorded(record=record), source=source, time=record.decided_at, causedby=cause)
