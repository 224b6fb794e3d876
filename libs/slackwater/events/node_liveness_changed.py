"""node.liveness_changed: fresh, stale or lost, by the server's clock. Last value per node."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from slackwater.events.envelope import Payload


class Liveness(StrEnum):
    """How old the last report is: within the expected interval, late, or given up."""

    FRESH = "fresh"
    STALE = "stale"
    LOST = "lost"


class NodeLivenessChanged(Payload):
    """A node went from one liveness to another."""

    TYPE: ClassVar[str] = "node.liveness_changed"
    STREAM: ClassVar[str] = "STATE"

    node: str
    liveness: Liveness
    previous: Liveness | None
    last_report_at: datetime
    changed_at: datetime

    def key(self) -> str:
        return self.node
