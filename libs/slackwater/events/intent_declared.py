"""intent.declared: what one writer wants of one node, whole. Level-triggered: the last document is all that counts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Amount, Count, CpuMilli, DocumentText, Items, Moment, Name, Text

Seconds = Annotated[float, Interval(ge=0, le=86400)]
"""A lease or a grace: a day is the most. What cannot be reckoned with is refused before it reaches an agent, which
would fall over it at every start, for the last document is handed out again."""


class WeightPolicy(StrEnum):
    """How CPU weights are set: by each pod's request (plain sharing), by its tier, or by its tier with batch and free
    scheduled as idle."""

    BY_REQUEST = "by-request"
    BY_TIER = "by-tier"
    BY_TIER_IDLE = "by-tier-idle"


class CpuThrottle(BaseModel):
    """The wanted CPU limit of one pod, in milli-cores, and the decision behind it."""

    model_config = ConfigDict(frozen=True)

    pod_uid: Name
    cpu_limit_milli: CpuMilli
    decision_id: Name


class Eviction(BaseModel):
    """End one pod: SIGTERM, `grace_seconds`, SIGKILL. Executed at most once per `id`, never after `deadline`."""

    model_config = ConfigDict(frozen=True)

    id: Name
    pod_uid: Name
    grace_seconds: Seconds
    deadline: Moment
    reason: Text
    decision_id: Name


def eviction_id(decision_id: str, number: int) -> str:
    """The id of the `number`th eviction of a decision. One part of a subject: the broker lets an agent tell the end of
    an eviction as `<node>.<id>` and not under anything longer."""
    return f"{decision_id}-{number}"


class LocalWaterline(BaseModel):
    """What the agent watches by itself between reports: crossing it publishes a report at once.

    `metric` is `prod_cpu_pressure` (0..1) or `node_cpu_usage_ratio` (0..1 of capacity).
    """

    model_config = ConfigDict(frozen=True)

    metric: Name
    value: Amount


class IntentDeclared(Payload):
    """Pods that are not named in `throttles` are to be as they were before any throttle of this writer.

    `lease_seconds` counts from receipt on the agent's monotonic clock, and again from each lease.renewed of its
    writer that speaks of the node; 0 = the writer does not hear the node. When it runs out without a renewal,
    throttles of this writer go back step by step and its evictions are no longer started.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "intent.declared"
    STREAM: ClassVar[str] = "INTENTS"

    node: Name
    writer: Name
    generation: Count
    epoch: Count = 0
    """Of the writer's lease on the node's partition: a document of an older epoch comes from a replica that has lost
    it, and is refused. 0 = a writer without leases."""
    declared_at: Moment
    lease_seconds: Seconds
    weights: WeightPolicy = WeightPolicy.BY_TIER
    throttles: Items[CpuThrottle] = ()
    evictions: Items[Eviction] = ()
    waterlines: Items[LocalWaterline] = ()
    rules: DocumentText = ""
    """What the agent guards the node by when the lease has run out and nobody renews it, as JSON of
    slackwater.waterline.handover; empty: it only lets go."""

    def key(self) -> str:
        return f"{self.node}/{self.writer}"

    def shard_key(self) -> str:
        return self.node
