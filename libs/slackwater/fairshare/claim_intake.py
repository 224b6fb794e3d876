"""Which queued claims take part in an arbitration: not those that can never fit, nor those that exceed the pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slackwater.fairshare.admission import LimitExcess, QuotaLimit
from slackwater.fairshare.arbitration_plan import ClaimRefusal, RefusalReason
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.occupancy import Occupancy
from slackwater.fairshare.tree import Amounts
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.fairshare.waiting_queue import Shape


class ClaimIntake:
    """The queued claims of one tree, by quota and shape."""

    def __init__(self, layout: TreeLayout, index: ClaimIndex, total: Amounts, aging_s: float | None) -> None:
        self.queues: dict[str, dict[Shape, list[QuotaClaim]]] = {}
        """What may be admitted, by quota; each list in order."""
        self.beyond_pool: dict[str, dict[Shape, list[QuotaClaim]]] = {}
        self.excesses: dict[str, Sequence[LimitExcess]] = {}
        """Of the claims in `beyond_pool`: the pool's total, and as used what other quotas keep of it when idle."""
        self.refusals: list[ClaimRefusal] = []
        unlent, idle = _unlent(layout), Occupancy(layout, layout.entitlements(total), total, {})
        for quota in sorted(index.queues.keys() & layout.quotas.keys()):
            for shape, claims in index.queues[quota].shapes(aging_s).items():
                refusal = refusal_of(layout, claims[0], unlent)
                if refusal is not None:
                    self.refusals += [replace(refusal, claim=claim.id) for claim in claims]
                else:
                    excesses = idle.excesses_of_pool(claims[0].quota, _least(claims[0]))
                    into = self.beyond_pool if excesses else self.queues
                    into.setdefault(quota, {})[shape] = claims
                    self.excesses |= {claim.id: excesses for claim in claims if excesses}
        self.refusals.sort(key=lambda refusal: (refusal.quota, refusal.claim))

    def set_aside(self) -> list[QuotaClaim]:
        """Returns the claims that exceed the pool."""
        return [claim for shapes in self.beyond_pool.values() for claims in shapes.values() for claim in claims]


def refusal_of(layout: TreeLayout, claim: QuotaClaim, unlent: Occupancy | None) -> ClaimRefusal | None:
    """Returns why the claim can never be admitted as the quotas are declared; None if it can.

    `unlent`: what other quotas keep for themselves below a max above the claim is never free for it.
    """
    if claim.quota not in layout.quotas:
        return ClaimRefusal(claim.id, claim.quota, RefusalReason.UNKNOWN_QUOTA, ())
    if claim.quota in layout.with_children or layout.quotas[claim.quota].is_parent:
        return ClaimRefusal(claim.id, claim.quota, RefusalReason.PARENT_QUOTA, ())
    least = _least(claim)
    above_max = _above(layout, claim.quota, least, QuotaLimit.MAX)
    if unlent is not None and not above_max:
        above_max = [excess for excess in unlent.excesses(claim.quota, least) if excess.limit is QuotaLimit.MAX]
    above_min = _above(layout, claim.quota, least, QuotaLimit.MIN) if claim.non_preemptible else []
    if above_max:
        return ClaimRefusal(claim.id, claim.quota, RefusalReason.ABOVE_MAX, (*above_max, *above_min))
    if above_min:
        return ClaimRefusal(claim.id, claim.quota, RefusalReason.ABOVE_MIN, tuple(above_min))
    return None


def unknown_quota_refusals(trees: Iterable[TreeLayout], index: ClaimIndex) -> list[ClaimRefusal]:
    """Returns a refusal for each queued claim whose quota is in no tree."""
    known = {name for layout in trees for name in layout.quotas}
    return [
        ClaimRefusal(claim, quota, RefusalReason.UNKNOWN_QUOTA, ())
        for quota in sorted(index.queued.keys() - known)
        for claim in sorted(index.queued[quota])
    ]


def _above(layout: TreeLayout, quota: str, amounts: Amounts, limit: QuotaLimit) -> list[LimitExcess]:
    found: list[LimitExcess] = []
    for name in layout.paths[quota]:
        declared = layout.quotas[name]
        allowed: Mapping[str, int] = declared.maximum
        if limit is QuotaLimit.MIN:
            allowed = {key: declared.minimum.get(key, 0) for key in amounts}
        found += [
            LimitExcess(name, limit, resource, 0, amount, allowed[resource])
            for resource, amount in sorted(amounts.items())
            if resource in allowed and amount > max(allowed[resource], 0)
        ]
    return found


def _unlent(layout: TreeLayout) -> Occupancy | None:
    """Returns the tree with nothing used but what its quotas keep for themselves; None where all lend."""
    if layout.all_lend:
        return None
    kept = {quota.name: quota.entitled for quota in layout.order if not quota.lends}
    return Occupancy(layout, kept, {}, {})


def _least(claim: QuotaClaim) -> Amounts:
    """Returns the least that the claim may be admitted with; nothing at all is no admission.

    Resources are cut in one proportion: where no minimum is above 0, a resource without room leaves nothing of any.
    """
    if claim.partial_minimum is None:
        return claim.request
    found = {key: min(amount, claim.partial_minimum.get(key, 0)) for key, amount in claim.request.items()}
    return found if any(found.values()) else {key: min(amount, 1) for key, amount in claim.request.items()}
