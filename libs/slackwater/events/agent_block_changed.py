"""agent.block_changed: whether services ignore what the agent of a node sends. Last value per node."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from slackwater.events.envelope import Payload

REASON_CHARACTERS = 500


class AgentBlockChanged(Payload):
    """An operator blocked the agent of a node, or unblocked it.

    While `blocked`, every consumer of events that agents publish acknowledges those of this node unread. `reason` is
    the operator's text, `changed_by` the principal, `since` when the change was made. The same state is published again
    now and then, so that it outlives the loss of the broker's store.
    """

    TYPE: ClassVar[str] = "agent.block_changed"
    STREAM: ClassVar[str] = "STATE"

    node: str = Field(max_length=253)
    blocked: bool
    reason: str = Field(max_length=REASON_CHARACTERS)
    changed_by: str = Field(max_length=253)
    since: datetime

    def key(self) -> str:
        return self.node
