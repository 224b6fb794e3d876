"""agent.block_changed: whether services ignore what the agent of a node sends. Last value per node."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import StringConstraints

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Moment, Name

REASON_CHARACTERS = 500


class AgentBlockChanged(Payload):
    """An operator blocked the agent of a node, or unblocked it.

    While `blocked`, every consumer of events that agents publish acknowledges those of this node unread. `reason` is
    the operator's text, `changed_by` the principal, `since` when the change was made. The same state is published again
    now and then, so that it outlives the loss of the broker's store.
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
