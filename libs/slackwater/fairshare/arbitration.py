"""Decides for all claims of all trees at one moment: admit, refuse, queue, reclaim. Pure.

The rounds of a tree, each by lowest dominant used-to-fair-share (turn_order) and inside a quota by rank (queue_order):

1. claims for which resources were reclaimed, as far as those are free by now;
2. claims within what their quota is entitled to: its min in force, or its guaranteed amount;
3. a head of a queue that has waited longer than `drain_s` and is larger than its runtime: it gets what becomes free;
4. claims within their quota's runtime;
5. reclaims for the claims of rounds 2 and 4 that have no room, and what is free is kept for them;
6. all others: borrowing, within each max and what is still free;
7. preemption inside a quota, for the head of its queue.

In a strict queue those behind a waiting claim wait too; in any queue, once it has waited longer than `starvation_s`.

Source: issue 26 section 2; Kueue's fair sharing and StrictFIFO, Koordinator's overuse revoke.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace

from slackwater.fairshare.arbitration_plan import ArbitrationPlan, ArbitrationSettings, ClaimReclaim, QuotaSnapshot
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claim_intake import unknown_quota_refusals
from slackwater.fairshare.claims import ClaimState as State
from slackwater.fairshare.claims import QuotaClaim, ReclaimOrder, admit, order_reclaim
from slackwater.fairshare.claims import end as end_claim
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import Amounts, added
from slackwater.fairshare.tree_layout import TreeLayout, layouts
from slackwater.fairshare.tree_rounds import TreeRounds
from slackwater.model.records import record


@record(frozen=True, slots=True)
class PreparedSnapshot:
    """A snapshot whose layouts and index its owner keeps up to date, instead of building them each time."""

    trees: Mapping[str, TreeLayout]
    totals: Mapping[str, Amounts]
    index: ClaimIndex
    settings: ArbitrationSettings
    queue_policies: Mapping[str, QueuePolicy]
    over_since_s: Mapping[str, float]
    evictions_allowed: Mapping[str, int]
    granted: Collection[str] | None = None
    refused: Collection[str] | None = None
    reserved: Mapping[str, Amounts] = field(default_factory=dict)


def prepare(snapshot: QuotaSnapshot) -> PreparedSnapshot:
    """Returns the snapshot with layouts and index. Raises BrokenTree."""
    return PreparedSnapshot(
        trees=layouts(snapshot.quotas),
        totals=snapshot.totals,
        index=ClaimIndex(snapshot.claims),
        settings=snapshot.settings,
        queue_policies=snapshot.queue_policies,
        over_since_s=snapshot.over_since_s,
        evictions_allowed=snapshot.evictions_allowed,
        granted=snapshot.granted,
        refused=snapshot.refused,
        reserved=snapshot.reserved,
    )


def plain_snapshot(prepared: PreparedSnapshot) -> QuotaSnapshot:
    """Returns what was prepared, as a record keeps it."""
    return QuotaSnapshot(
        quotas=[quota for layout in prepared.trees.values() for quota in layout.order],
        totals=prepared.totals,
        claims=list(prepared.index.by_id.values()),
        settings=prepared.settings,
        queue_policies=prepared.queue_policies,
        over_since_s=prepared.over_since_s,
        evictions_allowed=prepared.evictions_allowed,
        granted=prepared.granted,
        refused=prepared.refused,
        reserved=prepared.reserved,
    )


def _held_apart(prepared: PreparedSnapshot, tree: str) -> Amounts:
    """Returns what counts as used in no quota of a tree: what is reserved there, and what claims hold in quotas that
    are in no tree (deleted meanwhile, or not followed yet). The latter is of the pool where the claims are those of one
    tree; else it is not known of which."""
    reserved = prepared.reserved.get(tree, {})
    if len(prepared.trees) != 1:
        return reserved
    [layout] = prepared.trees.values()
    gone = [amounts for name, amounts in prepared.index.used.items() if name not in layout.quotas]
    return added(reserved, *gone) if reserved else added(*gone)


def arbitrate(snapshot: QuotaSnapshot | PreparedSnapshot, now_s: float, *, with_places: bool = True) -> ArbitrationPlan:
    """Returns the plan of this moment. The order of quotas and claims in the snapshot does not matter.

    `with_places` False leaves out the places in the queues and why each claim waits, which costs as much as the rest
    where many wait. Raises BrokenTree.
    """
    prepared = prepare(snapshot) if isinstance(snapshot, QuotaSnapshot) else snapshot
    plans = [
        TreeRounds(
            layout,
            prepared.index,
            prepared.totals.get(tree, {}),
            now_s=now_s,
            settings=prepared.settings,
            queue_policies=prepared.queue_policies,
            over_since_s=prepared.over_since_s,
            evictions_allowed=prepared.evictions_allowed.get(tree),
            granted=prepared.granted,
            refused=prepared.refused,
            apart=_held_apart(prepared, tree),
        ).plan(with_places=with_places)
        for tree, layout in sorted(prepared.trees.items())
    ]
    unknown = unknown_quota_refusals(prepared.trees.values(), prepared.index)
    return ArbitrationPlan(
        admissions=[item for plan in plans for item in plan.admissions],
        refusals=[*(item for plan in plans for item in plan.refusals), *unknown],
        places=[item for plan in plans for item in plan.places],
        reclaims=[item for plan in plans for item in plan.reclaims],
        reservations=[item for plan in plans for item in plan.reservations],
        released_reservations=[item for plan in plans for item in plan.released_reservations],
        evictions=sorted(
            claim.id
            for claim in prepared.index.reclaiming.values()
            if claim.reclaim is not None and claim.reclaim.deadline_s <= now_s
        ),
        ungranted=[item for plan in plans for item in plan.ungranted],
        over_since_s={name: since for plan in plans for name, since in plan.over_since_s.items()},
    )


def apply_plan(plan: ArbitrationPlan, claims: Mapping[str, QuotaClaim], now_s: float) -> dict[str, QuotaClaim]:
    """Returns the claims that the plan changes, by id, each in its new state. Evictions are not among them.

    A claim whose grace is over still uses its resources, until what evicts it reports its end. Raises
    ClaimTransitionError where the claims are not those that the plan was made for.
    """
    changed: dict[str, QuotaClaim] = {}
    for admission in plan.admissions:
        changed[admission.claim] = admit(claims[admission.claim], admission.amounts, now_s)
    for refusal in plan.refusals:
        changed[refusal.claim] = end_claim(claims[refusal.claim], State.REFUSED, now_s)
    for reclaim in plan.reclaims:
        changed[reclaim.victim] = order_reclaim(claims[reclaim.victim], reclaim_order(reclaim, now_s))
    for reserved, names in ((True, plan.reservations), (False, plan.released_reservations)):
        for name in names:
            if claims[name].reserved is not reserved:
                changed[name] = replace(claims[name], reserved=reserved)
    return changed


def reclaim_order(reclaim: ClaimReclaim, now_s: float) -> ReclaimOrder:
    """Returns the order as the victim keeps it."""
    return ReclaimOrder(reclaim.reason, now_s, reclaim.deadline_s, reclaim.for_quota, reclaim.for_claim)
