"""Which claims would be reclaimed next: those of quotas that borrow, as far as what they borrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.debts import QuotaAccounts
from slackwater.fairshare.tree import Amounts, Quota
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.fairshare.tree_state import TreeState
from slackwater.fairshare.victims import in_reclaim_order


def reclaim_candidates(
    quotas: Iterable[Quota], claims: Iterable[QuotaClaim], accounts: Mapping[str, QuotaAccounts], total: Amounts
) -> list[QuotaClaim]:
    """Returns claims in the order of a reclaim of everything that is borrowed and not being reclaimed already.

    A claim is left out if what its quota and those above it borrow is covered by claims before it, in each resource
    that it holds. Which of them a reclaim takes depends on what the lender asks for.
    """
    if not any(account.borrowed for account in accounts.values()):
        return []
    layout, index = TreeLayout(list(quotas)), ClaimIndex(claims)
    state = TreeState(layout, index, total)
    open_debts = {name: dict(account.borrowed) for name, account in accounts.items()}
    for claim in index.reclaiming.values():
        _repay(open_debts, layout.paths.get(claim.quota, ()), claim.holds)
    borrowing = [name for name in index.holding if any(open_debts.get(above) for above in layout.paths.get(name, ()))]
    candidates = []
    for claim in in_reclaim_order(state, borrowing):
        path = layout.paths[claim.quota]
        if any(open_debts[above].get(key, 0) > 0 for above in path for key in claim.holds):
            candidates.append(claim)
            _repay(open_debts, path, claim.holds)
    return candidates


def _repay(open_debts: Mapping[str, dict[str, int]], path: Iterable[str], amounts: Amounts) -> None:
    for above in path:
        for key, amount in amounts.items():
            open_debts[above][key] = open_debts[above].get(key, 0) - amount
