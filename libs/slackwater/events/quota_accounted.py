"""quota.accounted: the ledger of a quota tree, for display. Last value per tree."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Items, Mapped, Moment, Name, PodPriority, Ratio, Seconds, Text

Sums = Mapped[Count]
"""Amounts by resource: milli-cores of a CPU, else bytes or pieces."""


class AccountedQuota(BaseModel):
    """One quota with those below it; docs/concepts/quotas.md has the meaning of each word.

    A resource without a max is not limited. `holding` and `queued` count its own claims.
    """

    model_config = ConfigDict(frozen=True)

    name: Name
    parent: Name
    depth: Count
    min: Sums = {}
    max: Sums = {}
    used: Sums = {}
    requested: Sums = {}
    entitled: Sums = {}
    runtime: Sums = {}
    fair_share: Sums = {}
    borrowed: Sums = {}
    lent: Sums = {}
    owed: Sums = {}
    holding: Count = 0
    queued: Count = 0


class WaitingClaim(BaseModel):
    """A claim in the queue of its quota: its place, why it waits, and when it may start.

    Half of such claims start within `p50_seconds`, nine of ten within `p90_seconds`; None: the quota's past does not
    reach so far. `hit_rate_p90` is how often the latter was right, of `outcomes` claims.
    """

    model_config = ConfigDict(frozen=True)

    claim: Name
    quota: Name
    position: Count
    queue_length: Count
    request: Sums
    priority: PodPriority = 0
    reason: Name
    message: Text
    submitted_at: Moment
    p50_seconds: Seconds | None = None
    p90_seconds: Seconds | None = None
    hit_rate_p90: Ratio | None = None
    outcomes: Count = 0


class ReclaimedClaim(BaseModel):
    """A claim that has to end by `deadline`, or would be the next to. `for_quota` is empty where the pool shrank, and
    for a claim that nothing is asked of yet."""

    model_config = ConfigDict(frozen=True)

    claim: Name
    quota: Name
    amounts: Sums
    priority: PodPriority = 0
    workload: Name = ""
    reason: Name = ""
    for_quota: Name = ""
    for_claim: Name = ""
    deadline: Moment | None = None


class QuotaAccounted(Payload):
    """What each quota of a tree has, uses, lends and owes, published when it changes by the replica that owns the tree.

    Lists are bounded, the first are kept; `…_beyond` counts the others. `candidates`: claims of quotas that borrow, in
    the order in which they would be reclaimed, as far as what is borrowed. A tree without quotas is gone.
    """

    TYPE: ClassVar[str] = "quota.accounted"
    STREAM: ClassVar[str] = "STATE"

    tree: Name
    generation: Count
    total: Sums
    nodes: Count = 0
    unschedulable_nodes: Count = 0
    quotas: Items[AccountedQuota]
    quotas_beyond: Count = 0
    queue: Items[WaitingClaim] = ()
    queue_beyond: Count = 0
    reclaiming: Items[ReclaimedClaim] = ()
    candidates: Items[ReclaimedClaim] = ()
    accounted_at: Moment

    def key(self) -> str:
        return self.tree
