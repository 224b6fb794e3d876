"""reclaim.answered: which of the wanted reclaims the Autonomies of the pools allow."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Items, Moment, Name, Text


class ReclaimAnswered(Payload):
    """The answer to a reclaim.requested. `granted` are claims whose evictions are counted from now on, used or not,
    until an hour after `valid_until`. `because` says why the first of the others has to wait, `again_at` when it may be
    granted at the earliest."""

    TYPE: ClassVar[str] = "reclaim.answered"
    STREAM: ClassVar[str] = "DECISIONS"

    id: Name
    tree: Name
    granted: Items[Name]
    because: Text = ""
    again_at: Moment | None = None
    valid_until: Moment
    answered_at: Moment

    def key(self) -> str:
        return self.tree
