"""node.liveness_changed: whether a node is fresh, stale or lost by the server's clock. Last value per node."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Moment, Name
from slackwater.model.nodes import Liveness


class NodeLivenessChanged(Payload):
    """The liveness of a node changed."""

    TYPE: ClassVar[str] = "node.liveness_changed"
    STREAM: ClassVar[str] = "STATE"
    LISTED: ClassVar[bool] = True

    node: Name
    liveness: Liveness
    previous: Liveness | None
    last_report_at: Moment
    changed_at: Moment

    def key(self) -> str:
        return self.node
