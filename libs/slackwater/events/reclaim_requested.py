"""reclaim.requested: a tree of quotas wants claims to end, or moves want to begin: may their pods be evicted?"""

from __future__ import annotations

import operator
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Items, Mapped, Moment, Name, Seconds

MOVES_TREE: Final = "migration:jobs"
"""In the place of a tree where the service migration asks. No tree has a colon in its name."""


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
    asks again. A grant may be used for `valid_seconds`.

    For moves `tree` is `migration:jobs` and a claim is the id of a job; `by_intent`: intents evict, whatever the pool
    says of quotas, so that only a pool in mode evict grants it.
    """

    TYPE: ClassVar[str] = "reclaim.requested"
    STREAM: ClassVar[str] = "DECISIONS"

    id: Name
    tree: Name
    wanted: Items[WantedReclaim]
    valid_seconds: Seconds
    by_intent: bool = Field(default=False, exclude_if=operator.not_)
    requested_at: Moment

    def key(self) -> str:
        return self.tree
