"""What is stored of a tree, its claims and the use of its quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.start_estimate import StartEstimate
from slackwater.fairshare.tree import Amounts
from slackwater.model.records import record
from slackwater.quota.domain.reclaim_counts import ReclaimCount
from slackwater.quota.domain.reclaim_grant import ReclaimGrant

DEFAULT_TREE: Final = "default"


def tree_key(tree: str) -> str:
    """Returns the name of a tree in subjects, records and partitions, where none may be empty."""
    return tree or DEFAULT_TREE


@record(frozen=True, slots=True)
class StoredTree:
    """The root of one tree. Its generation rises with every change of a claim of the tree: it is on every path."""

    tree: str
    generation: int = 0
    over_since_s: Mapping[str, float] = field(default_factory=dict)
    """Since when quotas use more than their runtime."""
    grant: ReclaimGrant = field(default_factory=ReclaimGrant)
    reclaims: Mapping[str, ReclaimCount] = field(default_factory=dict)
    """By workload."""
    quotas_revision: int = 0
    """Of the documents of all quotas: decisions that are made with older ones are made again."""


@record(frozen=True, slots=True)
class ClaimReasoning:
    """What the last decision about a claim was, in short; the record has the whole."""

    decision: str
    reason: str
    message: str


@record(frozen=True, slots=True)
class KeptClaim:
    """A claim, the tree of its quota, and the last decision about it."""

    tree: str
    claim: QuotaClaim
    because: ClaimReasoning | None = None
    estimate: StartEstimate | None = None
    """Made when it was queued, from the quota's past."""


@record(frozen=True, slots=True)
class QuotaUse:
    """What a quota and those below it use. The database refuses a use above the ceiling."""

    quota: str
    tree: str
    used: Amounts
    ceiling: Amounts
    """The max; what is used while that is more, because the max was lowered."""
