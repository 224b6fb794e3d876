"""What quotas released in the past, and how right estimates made of it were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from slackwater.fairshare.arbitration_plan import QueuePlace
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.start_estimate import (
    EstimateHitRate,
    EstimateOutcome,
    QuotaRelease,
    StartEstimate,
    estimate_start,
    hit_rate,
)
from slackwater.fairshare.tree import Amounts, added
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.quota.domain.ledger_records import KeptClaim
from slackwater.quota.ports import LedgerStore

READ_SECONDS: Final = 10.0
"""Interval at which ended claims are read again."""


RECENT_SECONDS: Final = 1800.0


class ReleaseHistory:
    """Of the ended claims that are still kept."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._releases: dict[str, list[QuotaRelease]] = {}
        self._outcomes: dict[str, list[EstimateOutcome]] = {}
        self._ended: dict[str, list[QuotaClaim]] = {}

    async def read(self) -> None:
        """Read the ended claims. Raises Unavailable."""
        async with self._store.unit_of_work() as unit:
            ended = await unit.ended()
        self._releases = _releases(ended)
        self._outcomes = _outcomes(ended)
        self._ended = {}
        for stored in ended:
            if stored.claim.admitted_s is not None:
                self._ended.setdefault(stored.tree, []).append(stored.claim)

    def recent(self, tree: str, now_s: float) -> Sequence[QuotaClaim]:
        """Returns the claims of a tree that held something and ended lately."""
        return [claim for claim in self._ended.get(tree, ()) if now_s - (claim.ended_s or 0.0) < RECENT_SECONDS]

    def estimate(
        self,
        claim: QuotaClaim,
        place: QueuePlace,
        index: ClaimIndex,
        layout: TreeLayout,
        total: Amounts,
        now_s: float,
    ) -> StartEstimate | None:
        """Returns when a claim may start that waits at this place; None where too little was released so far."""
        used, all_used = index.used.get(claim.quota, {}), added(*index.used.values())
        limit = layout.quotas[claim.quota].maximum if claim.quota in layout.quotas else {}
        short: dict[str, int] = {}
        for resource, amount in added(place.ahead, claim.request).items():
            room = total.get(resource, 0) - all_used.get(resource, 0)
            if resource in limit:
                room = min(room, limit[resource] - used.get(resource, 0))
            short[resource] = amount - max(room, 0)
        if max(short.values(), default=0) <= 0:
            return None  # it waits for something else than releases of its quota
        return estimate_start(self._releases.get(claim.quota, ()), short, now_s)

    def hit_rate(self, quota: str) -> EstimateHitRate:
        """Returns how often claims of a quota started within what was estimated for them."""
        return hit_rate(self._outcomes.get(quota, ()))


def _releases(ended: Iterable[KeptClaim]) -> dict[str, list[QuotaRelease]]:
    releases: dict[str, list[QuotaRelease]] = {}
    for stored in ended:
        claim = stored.claim
        if claim.admitted_s is not None and claim.ended_s is not None:
            releases.setdefault(claim.quota, []).append(QuotaRelease(claim.ended_s, claim.admitted))
    return releases


def _outcomes(ended: Sequence[KeptClaim]) -> dict[str, list[EstimateOutcome]]:
    outcomes: dict[str, list[EstimateOutcome]] = {}
    for stored in ended:
        claim = stored.claim
        if stored.estimate is not None and claim.admitted_s is not None:
            waited = claim.admitted_s - claim.submitted_s
            outcomes.setdefault(claim.quota, []).append(EstimateOutcome(stored.estimate, waited))
    return outcomes
