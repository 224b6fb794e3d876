"""eviction.requested: a claim on a quota has to end, and pods of it run on this node."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Items, Moment, Name, Seconds, Text


class RequestedEviction(BaseModel):
    """One pod. `id` is that of the eviction, by which it is carried out once and answered."""

    model_config = ConfigDict(frozen=True)

    id: Name
    pod_uid: Name
    pod_name: Name


class EvictionRequested(Payload):
    """The evictions were granted by reclaim.answered. Ensurance declares them in its intent for the node, with
    `grace_seconds` from SIGTERM to SIGKILL; none begins after `deadline`."""

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "eviction.requested"
    STREAM: ClassVar[str] = "DECISIONS"

    node: Name
    claim: Name
    quota: Name
    for_quota: Name = ""
    for_claim: Name = ""
    pods: Items[RequestedEviction]
    grace_seconds: Seconds
    deadline: Moment
    reason: Text
    decision_id: Name
    requested_at: Moment

    def key(self) -> str:
        return f"{self.node}/{self.claim}"

    def shard_key(self) -> str:
        return self.node
