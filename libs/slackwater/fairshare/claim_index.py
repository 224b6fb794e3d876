"""Claims by quota with running sums: what an arbitration reads, kept up to date claim by claim.

It costs the length of a claim's request to note a change; an arbitration then reads no claim that neither waits nor may
be reclaimed.
"""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.fairshare.claims import ENDED, HOLDING, ClaimState, QuotaClaim
from slackwater.fairshare.tree import Amounts
from slackwater.fairshare.waiting_queue import WaitingQueue

Sums = dict[str, dict[str, int]]


class ClaimIndex:
    """The claims that have not ended, by id and by quota. Not for two writers."""

    def __init__(self, claims: Iterable[QuotaClaim] = ()) -> None:
        self.by_id: dict[str, QuotaClaim] = {}
        self.queued: dict[str, dict[str, QuotaClaim]] = {}
        self.queues: dict[str, WaitingQueue] = {}
        """What is in `queued`, in order."""
        self.reserved: dict[str, QuotaClaim] = {}
        """Queued claims for which resources are kept."""
        self.holding: dict[str, dict[str, QuotaClaim]] = {}
        self.reclaiming: dict[str, QuotaClaim] = {}
        self.used: Sums = {}
        self.non_preemptible_used: Sums = {}
        self.requested: Sums = {}
        """Held and queued, by quota."""
        for claim in claims:
            self.put(claim)

    def put(self, claim: QuotaClaim) -> None:
        """Replace what is known of the claim; one that has ended is dropped."""
        old = self.by_id.pop(claim.id, None)
        if old is not None:
            self._drop(old)
        if claim.state not in ENDED:
            self._insert(claim)

    def _insert(self, claim: QuotaClaim) -> None:
        self.by_id[claim.id] = claim
        _add(self.requested, claim.quota, claim.wants, 1)
        if claim.state is ClaimState.QUEUED:
            self.queued.setdefault(claim.quota, {})[claim.id] = claim
            self.queues.setdefault(claim.quota, WaitingQueue()).put(claim)
            if claim.reserved:
                self.reserved[claim.id] = claim
            return
        self.holding.setdefault(claim.quota, {})[claim.id] = claim
        if claim.state is ClaimState.RECLAIMING:
            self.reclaiming[claim.id] = claim
        self._count(claim, 1)

    def _drop(self, claim: QuotaClaim) -> None:
        _add(self.requested, claim.quota, claim.wants, -1)
        groups = self.queued if claim.state is ClaimState.QUEUED else self.holding
        group = groups[claim.quota]
        del group[claim.id]
        if claim.state is ClaimState.QUEUED:
            self.queues[claim.quota].remove(claim)
            self.reserved.pop(claim.id, None)
        if not group:
            del groups[claim.quota]
            if claim.state is ClaimState.QUEUED:
                del self.queues[claim.quota]
        self.reclaiming.pop(claim.id, None)
        if claim.state in HOLDING:
            self._count(claim, -1)

    def _count(self, claim: QuotaClaim, sign: int) -> None:
        _add(self.used, claim.quota, claim.holds, sign)
        if claim.non_preemptible:
            _add(self.non_preemptible_used, claim.quota, claim.holds, sign)


def _add(sums: Sums, quota: str, amounts: Amounts, sign: int) -> None:
    found = sums.setdefault(quota, {})
    for resource, amount in amounts.items():
        found[resource] = found.get(resource, 0) + sign * amount
