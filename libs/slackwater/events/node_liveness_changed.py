"""node.liveness_changed: whether a node is fresh, stale or lost by the server's clock. Last value per node."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Moment, Name
from slackwater.model.nodes import Liveness


class DuplicateAgent(BaseModel):
    """A second agent reports as the node and is refused. It holds until `until` unless it is published again."""

    model_config = ConfigDict(frozen=True)

    since: Moment
    until: Moment


class NodeLivenessChanged(Payload):
    """The liveness of a node changed, or a second agent reports as the node: `liveness` is then the previous one."""

    TYPE: ClassVar[str] = "node.liveness_changed"
    STREAM: ClassVar[str] = "STATE"
    LISTED: ClassVar[bool] = True

    node: Name
    liveness: Liveness
    previous: Liveness | None
    last_report_at: Moment
    changed_at: Moment
    duplicate: DuplicateAgent | None = None
    """None says nothing of a second agent."""

    def key(self) -> str:
        return self.node
