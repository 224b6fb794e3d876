"""intent.declared: the complete desired state of one node by one writer. Level-triggered: the last one replaces all."""

from __future__ import annotations

import operator
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, Field

from slackwater.events.envelope import Payload
from slackwater.model.bounds import (
    MOST_DOCUMENT,
    Amount,
    Count,
    CpuMilli,
    DocumentText,
    Items,
    MachineAmount,
    Moment,
    Name,
    Text,
)

MOST_RULES_BYTES: Final = MOST_DOCUMENT // 2
"""Of the rules in a node's intent before they are packed: the broker takes 1 MiB, and limits and evictions of some
1,900 pods, the most that a report has, need the other half also where nothing can be packed.
"""
WRITERS: Final = ("ensurance", "migration")
"""The services that declare intents; slackwater.intents.controls says what each may set."""
AGENT_WRITER: Final = "agent"
"""The writer of what an agent decides by itself while it is disconnected."""

Seconds = Annotated[float, Interval(ge=0, le=86400)]
"""A lease or grace period of at most one day. Invalid values are rejected before they reach an agent, because the last
document is redelivered at every start of the agent and would make it fail each time."""


class WeightPolicy(StrEnum):
    """How CPU weights are set: by the pod's request, its tier, or its tier with batch and free scheduled as idle."""

    BY_REQUEST = "by-request"
    BY_TIER = "by-tier"
    BY_TIER_IDLE = "by-tier-idle"


class CpuThrottle(BaseModel):
    """The desired CPU limit of one pod in milli-cores, and the decision that set it."""

    model_config = ConfigDict(frozen=True)

    pod_uid: Name
    cpu_limit_milli: CpuMilli
    decision_id: Name


class MemoryThrottle(BaseModel):
    """The desired upper memory level of one pod in bytes (memory.high of cgroup v2), and the decision that set it."""

    model_config = ConfigDict(frozen=True)

    pod_uid: Name
    memory_high_bytes: MachineAmount
    decision_id: Name


class MemoryProtection(StrEnum):
    """How the agent protects the requested memory of prod pods: not at all, with memory.low or with memory.min."""

    NONE = "none"
    LOW = "low"
    MIN = "min"


def _is_unprotected(protection: MemoryProtection) -> bool:
    return protection is MemoryProtection.NONE


class Eviction(BaseModel):
    """Evict one pod: SIGTERM, then SIGKILL after `grace_seconds`. Executed at most once per `id`, not after
    `deadline`. Where a disruption budget refuses it, it `waits` until the deadline, or else ends as refused."""

    model_config = ConfigDict(frozen=True)

    id: Name
    pod_uid: Name
    grace_seconds: Seconds
    deadline: Moment
    reason: Text
    decision_id: Name
    waits: bool = Field(default=True, exclude_if=bool)


class WorkloadStart(BaseModel):
    """Start one pod of a workload that the node's operator has described in a file on it (`workload`). `digest` is that
    of the file's content: a node whose file differs refuses. Begun at most once per `id`, and not after `deadline`. A
    pod that runs is not ended when its start is left out."""

    model_config = ConfigDict(frozen=True)

    id: Name
    workload: Name
    digest: Name
    deadline: Moment
    reason: Text
    decision_id: Name


def eviction_id(decision_id: str, number: int) -> str:
    """The id of the `number`th eviction of a decision."""
    return f"{decision_id}-{number}"


class LocalWaterline(BaseModel):
    """A threshold that the agent watches between reports; crossing it publishes a report at once.

    `metric` is `prod_cpu_pressure`, `prod_memory_pressure` (0..1), `node_cpu_usage_ratio`, `node_memory_usage_ratio`
    (0..1 of capacity) or `prod_memory_refaults` (bytes per second). An agent ignores those it does not know.
    """

    model_config = ConfigDict(frozen=True)

    metric: Name
    value: Amount


class IntentDeclared(Payload):
    """The desired state of a node. Pods that `throttles` (CPU) or `memory_throttles` do not name are restored to their
    limits before the throttle. `memory_throttles` and `starts` are omitted if empty, `memory_protection` if `none`.

    `lease_seconds` counts from receipt on the agent's monotonic clock and restarts with each lease.renewed of the
    writer that covers the node; 0 = the writer receives no reports of the node. When the lease expires, the agent
    restores the throttles of this writer step by step, and begins none of its evictions and starts.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "intent.declared"
    STREAM: ClassVar[str] = "INTENTS"
    COMMAND: ClassVar[bool] = True

    node: Name
    writer: Name
    generation: Count
    epoch: Count = 0
    """Epoch of the writer's lease on the node's partition. The agent rejects a document of an older epoch, because its
    replica has lost the lease. 0 = a writer without leases."""
    declared_at: Moment
    lease_seconds: Seconds
    weights: WeightPolicy = WeightPolicy.BY_TIER
    throttles: Items[CpuThrottle] = ()
    evictions: Items[Eviction] = ()
    memory_throttles: Items[MemoryThrottle] = Field(default=(), exclude_if=operator.not_)
    memory_protection: MemoryProtection = Field(default=MemoryProtection.NONE, exclude_if=_is_unprotected)
    starts: Items[WorkloadStart] = Field(default=(), exclude_if=operator.not_)
    waterlines: Items[LocalWaterline] = ()
    rules: DocumentText = ""
    """Rules that the agent applies by itself after the lease has expired: packed (see events.codec.packed) JSON of
    slackwater.waterline.rules_codec, because every document of every node carries them. Empty: the agent only
    restores."""

    def key(self) -> str:
        return f"{self.node}/{self.writer}"

    def shard_key(self) -> str:
        return self.node
