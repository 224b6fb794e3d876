"""eviction.completed: exactly one per eviction id, whatever became of it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from slackwater.events.envelope import Payload


class EvictionOutcome(StrEnum):
    """How an eviction ended."""

    TERMINATED = "terminated"
    KILLED = "killed"
    ALREADY_GONE = "already_gone"
    EXPIRED = "expired"
    REFUSED = "refused"
    FAILED = "failed"


class EvictionCompleted(Payload):
    """The end of one eviction as the agent saw it."""

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "eviction.completed"
    STREAM: ClassVar[str] = "DECISIONS"

    id: str
    node: str
    pod_uid: str
    writer: str
    outcome: EvictionOutcome
    detail: str = ""
    completed_at: datetime
    decision_id: str

    def key(self) -> str:
        return f"{self.node}/{self.id}"

    def shard_key(self) -> str:
        return self.node
