"""agent.block_changed: whether services ignore what the agent of a node sends. Last value per node."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import StringConstraints

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Moment, Name

REASON_CHARACTERS = 500


class AgentBlockChanged(Payload):
    """An operator blocked the agent of a node, or unblocked it.

    While `blocked`, every consumer of events from agents acknowledges those of this node without processing them.
    `reason` is the operator's text, `changed_by` the principal, `since` the time of the change. The state is
    republished periodically, so that it survives the loss of the broker's store.
    """

    TYPE: ClassVar[str] = "agent.block_changed"
    STREAM: ClassVar[str] = "STATE"

    node: Name
    blocked: bool
    reason: Annotated[str, StringConstraints(max_length=REASON_CHARACTERS)]
    changed_by: Name
    since: Moment

    def key(self) -> str:
        return self.node
