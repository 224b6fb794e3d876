"""reclaim.requested: a tree of quotas wants claims to end, and asks whether their pods may be evicted."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Items, Mapped, Moment, Name, Seconds


class WantedReclaim(BaseModel):
    """One claim that would have to end. All of one `order` are granted, or none: fewer would help nothing.

    `evictions` are counted against the Autonomy of each pool: how many pods of the claim run there.
    """

    model_config = ConfigDict(frozen=True)

    claim: Name
    order: Name
    evictions: Mapped[Count]


class ReclaimRequested(Payload):
    """Answered by reclaim.answered with the same `id`. Nothing is held back for a request: a tree that still wants it
    asks again. A grant may be used for `valid_seconds`."""

    TYPE: ClassVar[str] = "reclaim.requested"
    STREAM: ClassVar[str] = "DECISIONS"

    id: Name
    tree: Name
    wanted: Items[WantedReclaim]
    valid_seconds: Seconds
    requested_at: Moment

    def key(self) -> str:
        return self.tree
