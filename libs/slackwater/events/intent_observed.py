"""intent.observed: an agent has converged to a generation, or says what stood in the way."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from slackwater.events.envelope import Payload


class ObservedLimit(BaseModel):
    """The CPU limit of one pod as re-read from the kernel after the write; `error` is a stable reason or None."""

    model_config = ConfigDict(frozen=True)

    pod_uid: str
    cpu_limit_milli: int | None
    error: str | None = None
    decision_id: str | None = None


class IntentObserved(Payload):
    """`observed_at` is taken after the last write. `limits` covers the pods whose limit this generation changed."""

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "intent.observed"
    STREAM: ClassVar[str] = "DECISIONS"

    node: str
    writer: str
    generation: int
    boot_epoch: str
    received_at: datetime
    observed_at: datetime
    limits: tuple[ObservedLimit, ...] = ()
    foreign_writers: tuple[str, ...] = ()

    def key(self) -> str:
        return f"{self.node}/{self.writer}"

    def shard_key(self) -> str:
        return self.node
