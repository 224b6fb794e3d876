"""Which quota has lent what, which has borrowed it, and what is owed.

A level's total is divided into what its children are entitled to and a surplus. What a child uses beyond its
entitlement comes from the surplus first; the rest is borrowed from siblings that do not use all of theirs. So, by
resource and level, lent = borrowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.level_share import split
from slackwater.fairshare.tree import ROOT, Amounts, Quota, added, children_of, limited
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.fairshare.tree_state import TreeState
from slackwater.model.records import record


@record(frozen=True, slots=True)
class QuotaAccounts:
    """The figures of one quota, descendants included. See docs/concepts/quotas.md for each word."""

    quota: str
    used: Amounts
    requested: Amounts
    """Used and queued, cut to its max; at least the min where it does not lend."""
    entitled: Amounts
    runtime: Amounts
    fair_share: Amounts
    borrowed: Amounts
    lent: Amounts
    owed: Amounts
    """Of what it has lent, what it requests by now."""


def accounts(layout: TreeLayout, index: ClaimIndex, total: Amounts) -> Mapping[str, QuotaAccounts]:
    """Returns the figures of every quota of a tree by name."""
    state = TreeState(layout, index, total)
    requested = _requested(layout, index)
    found: dict[str, QuotaAccounts] = {}
    for parent, children in children_of(layout.order).items():
        level_total = total if parent == ROOT else state.runtime[parent]
        for child, (borrowed, lent) in _level(state, level_total, children).items():
            used, entitled = state.used.get(child, {}), state.entitled[child]
            owed = {
                key: min(amount, max(min(requested[child].get(key, 0), entitled.get(key, 0)) - used.get(key, 0), 0))
                for key, amount in lent.items()
            }
            found[child] = QuotaAccounts(
                quota=child,
                used=used,
                requested=requested[child],
                entitled=entitled,
                runtime=state.runtime[child],
                fair_share=state.fair[child],
                borrowed=_positive(borrowed),
                lent=_positive(lent),
                owed=_positive(owed),
            )
    return {quota.name: found[quota.name] for quota in layout.order}


def _level(
    state: TreeState, total: Amounts, children: Sequence[Quota]
) -> Mapping[str, tuple[dict[str, int], dict[str, int]]]:
    """Returns (borrowed, lent) of each child."""
    found: dict[str, tuple[dict[str, int], dict[str, int]]] = {child.name: ({}, {}) for child in children}
    resources = {key for child in children for key in (*state.used.get(child.name, ()), *state.entitled[child.name])}
    for resource in sorted(resources):
        above, idle, entitled = {}, {}, 0
        for child in children:
            use = state.used.get(child.name, {}).get(resource, 0)
            own = state.entitled[child.name].get(resource, 0)
            above[child.name], idle[child.name] = max(use - own, 0), max(own - use, 0)
            entitled += own
        surplus = max(total.get(resource, 0) - entitled, 0)
        moved = min(max(sum(above.values()) - surplus, 0), sum(idle.values()))
        if moved:
            for name, amount in split(moved, above).items():
                found[name][0][resource] = amount
            for name, amount in split(moved, idle).items():
                found[name][1][resource] = amount
    return found


def _requested(layout: TreeLayout, index: ClaimIndex) -> Mapping[str, Amounts]:
    own: dict[str, dict[str, int]] = {}
    for quota in reversed(layout.order):
        request = added(index.requested.get(quota.name, {}), own.get(quota.name, {}))
        if not quota.lends:
            request |= {key: max(request.get(key, 0), amount) for key, amount in quota.minimum.items()}
        own[quota.name] = limited(request, quota.maximum)
        own[quota.parent] = added(own.get(quota.parent, {}), own[quota.name])
    return own


def _positive(amounts: Amounts) -> Amounts:
    return {key: amount for key, amount in amounts.items() if amount > 0}
