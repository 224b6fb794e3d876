"""What the use cases need beside the API server: recorded decisions, and meters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slackwater.decisions.record import DecisionRecord


class DecisionStore(Protocol):
    """Keeps decisions before they are carried out."""

    async def record(self, records: Sequence[DecisionRecord]) -> None:
        """Store the records in one transaction. Raises Unavailable, and Fenced if a node's partition is not held:
        then nothing is stored, and nothing must be written."""
        ...


class StatusMeter(Protocol):
    """What operators watch of the writes to node status."""

    def written(self, reason: str, delay_seconds: float | None) -> None:
        """A write was made; how long after its offer, None if there is none."""
        ...

    def refused(self, reason: str) -> None:
        """A write failed: the code of the error."""
        ...

    def waiting(self, nodes: int) -> None:
        """How many nodes wait, because the rate of writes is bounded."""
        ...
