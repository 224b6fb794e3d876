"""One writer's newest document, as the controls read it."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.agent.domain.waterlines import Waterline
from slackwater.agent.domain.weights import Policy


@dataclass(frozen=True, slots=True)
class Throttle:
    """The wanted CPU limit of one pod and the decision behind it."""

    pod_uid: str
    limit_milli: int
    decision_id: str


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """The wanted upper memory level of one pod in bytes and the decision behind it."""

    pod_uid: str
    high_bytes: int
    decision_id: str


@dataclass(frozen=True, slots=True)
class DesiredState:
    """One writer's newest document, with the monotonic time of its receipt."""

    writer: str
    generation: int
    received: float
    lease_seconds: float
    policy: Policy
    throttles: tuple[Throttle, ...] = ()
    waterlines: tuple[Waterline, ...] = ()
    memory_throttles: tuple[MemoryLevel, ...] = ()
    memory_protection: str = "none"
    """How requested memory of prod is protected: none, low (memory.low) or min (memory.min)."""
    epoch: int = 0
    """Of the writer's partition lease; 0 if it holds no partitions."""

    def lapsed_seconds(self, now: float) -> float:
        """How long ago the lease ran out; negative while it lives."""
        return now - self.received - self.lease_seconds

    def alive(self, now: float) -> bool:
        return self.lapsed_seconds(now) < 0
