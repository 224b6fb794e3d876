"""eviction.completed: the outcome of an eviction, exactly one per eviction id."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Moment, Name, Text


class EvictionOutcome(StrEnum):
    """How an eviction ended."""

    TERMINATED = "terminated"
    KILLED = "killed"
    ALREADY_GONE = "already_gone"
    EXPIRED = "expired"
    REFUSED = "refused"
    FAILED = "failed"


class EvictionCompleted(Payload):
    """The outcome of one eviction as observed by the agent."""

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "eviction.completed"
    STREAM: ClassVar[str] = "DECISIONS"
    FROM_AGENT: ClassVar[bool] = True

    id: Name
    node: Name
    pod_uid: Name
    writer: Name
    outcome: EvictionOutcome
    detail: Text = ""
    completed_at: Moment
    decision_id: Name

    def key(self) -> str:
        return f"{self.node}/{self.id}"

    def shard_key(self) -> str:
        return self.node
