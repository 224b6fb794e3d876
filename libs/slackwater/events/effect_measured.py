"""effect.measured: what a throttle or restore really did, measured after the agent wrote it."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from slackwater.events.envelope import Payload


class EffectMeasured(Payload):
    """The metric that triggered, before and after, and when the write was seen in the kernel.

    `relieved` says whether the metric is at or below its waterline in the first report after the write.
    Seconds count from `decided_at` of the decision.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "effect.measured"
    STREAM: ClassVar[str] = "DECISIONS"

    decision_id: str
    node: str
    metric: str
    before: float
    after: float
    waterline: float
    relieved: bool
    actuated_at: datetime
    measured_at: datetime
    seconds_to_actuation: float
    seconds_to_measurement: float

    def key(self) -> str:
        return f"{self.node}/{self.decision_id}"

    def shard_key(self) -> str:
        return self.node
