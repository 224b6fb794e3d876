"""decision.recorded: a decision with everything that is needed to explain and to repeat it."""

from __future__ import annotations

from typing import ClassVar

from slackwater.decisions.record import DecisionRecord
from slackwater.events.envelope import Payload


class DecisionRecorded(Payload):
    """Written in the transaction that made the decision; the console keeps what it reads here."""

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "decision.recorded"
    STREAM: ClassVar[str] = "DECISIONS"

    record: DecisionRecord

    def key(self) -> str:
        return f"{self.record.node}/{self.record.id}"

    def shard_key(self) -> str:
        return self.record.node
