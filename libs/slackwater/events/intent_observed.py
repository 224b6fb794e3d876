"""intent.observed: an agent has reconciled a generation; reports the resulting limits and errors."""

from __future__ import annotations

import operator
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from slackwater.events.envelope import Payload
from slackwater.events.intent_declared import WRITERS
from slackwater.model.bounds import Count, CpuMilli, Items, MachineAmount, Moment, Name, Text
from slackwater.model.start_states import StartState

READ_REFUSED: Final = "read_refused"
"""The error of a limit that could not be read back: None then stands for unknown, and what was in force may still be.
"""


class ObservedLimit(BaseModel):
    """The CPU limit of one pod, read back from the kernel after the write; `error` is a stable reason or None."""

    model_config = ConfigDict(frozen=True)

    pod_uid: Name
    cpu_limit_milli: CpuMilli | None
    error: Text | None = None
    decision_id: Name | None = None


class ObservedMemoryLimit(BaseModel):
    """The memory.high of one pod, read back from the kernel after the write (None: unlimited); `error` is a stable
    reason or None."""

    model_config = ConfigDict(frozen=True)

    pod_uid: Name
    memory_high_bytes: MachineAmount | None
    error: Text | None = None
    decision_id: Name | None = None


class ObservedStart(BaseModel):
    """Of one requested start: its state, the pod (empty before it began), when it began and when it was ready."""

    model_config = ConfigDict(frozen=True)

    id: Name
    state: StartState
    pod_uid: Text = ""
    detail: Text = ""
    started_at: Moment | None = None
    ready_at: Moment | None = None


class IntentObserved(Payload):
    """The observed state of a generation. `observed_at` is the time after the last write; `limits` and
    `memory_limits` (omitted if empty) have the changed pods, `starts` (omitted if empty) all starts of the document
    that are decided."""

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "intent.observed"
    STREAM: ClassVar[str] = "AGENTS"
    FROM_AGENT: ClassVar[bool] = True
    AGENT_KEYS: ClassVar[tuple[str, ...]] = WRITERS

    node: Name
    writer: Name
    generation: Count
    boot_epoch: Name
    received_at: Moment
    observed_at: Moment
    limits: Items[ObservedLimit] = ()
    memory_limits: Items[ObservedMemoryLimit] = Field(default=(), exclude_if=operator.not_)
    starts: Items[ObservedStart] = Field(default=(), exclude_if=operator.not_)
    foreign_writers: Items[Text] = ()

    def key(self) -> str:
        return f"{self.node}/{self.writer}"

    def shard_key(self) -> str:
        return self.node
