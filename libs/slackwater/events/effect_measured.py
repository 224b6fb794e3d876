"""effect.measured: the effect of a throttle or restore, measured after the agent has written it."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Amount, Moment, Name, SecondsDifference


class EffectMeasured(Payload):
    """The triggering metric before and after the write, and the time at which the agent observed the write.

    `relieved` is whether the metric is at or below its waterline in the first report after the write.
    Seconds count from `decided_at` of the decision.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "effect.measured"
    STREAM: ClassVar[str] = "DECISIONS"

    decision_id: Name
    node: Name
    metric: Name
    before: Amount
    after: Amount
    waterline: Amount
    relieved: bool
    actuated_at: Moment
    measured_at: Moment
    seconds_to_actuation: SecondsDifference
    seconds_to_measurement: SecondsDifference

    def key(self) -> str:
        return f"{self.node}/{self.decision_id}"

    def shard_key(self) -> str:
        return self.node
