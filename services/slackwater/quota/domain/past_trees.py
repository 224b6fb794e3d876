"""A tree as it was: what its pool had, what was declared, requested and used. Its runtimes follow from these again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ClaimState, QuotaClaim
from slackwater.fairshare.debts import QuotaAccounts, accounts
from slackwater.fairshare.tree import Amounts, Quota, QuotaLedger, ledger
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.model.records import record
from slackwater.model.tiers import Tier
from slackwater.quota.domain.pool_totals import TreeTotals

_LAST_MS: Final = 10**13
"""Counts down in keys, so that rows of a tree are in the order newest first. The year 2286."""


@record(frozen=True, slots=True)
class PastTree:
    """At one moment. `requested` and `used` are those of the quotas' own claims."""

    tree: str
    at_s: float
    generation: int
    totals: TreeTotals
    quotas: Sequence[Quota]
    """Parents before their children."""
    requested: Mapping[str, Amounts]
    used: Mapping[str, Amounts]

    @property
    def moment(self) -> str:
        """Its key."""
        return moment_key(self.tree, self.at_s)

    def is_same(self, other: PastTree) -> bool:
        """Returns whether nothing but the time and the generation differ."""
        return replace(self, at_s=other.at_s, generation=other.generation) == other

    def figures(self) -> tuple[QuotaLedger, Mapping[str, QuotaAccounts]]:
        """Returns the runtimes and accounts of that moment. Raises BrokenTree."""
        layout = TreeLayout(self.quotas)
        quotas = [replace(quota, own_request=self.requested.get(quota.name, {})) for quota in layout.order]
        index = ClaimIndex(claim for quota in self.quotas for claim in self._claims(quota.name))
        return ledger(quotas, self.totals.total), accounts(layout, index, self.totals.total)

    def _claims(self, quota: str) -> Sequence[QuotaClaim]:
        """Claims with the same sums: one that holds what is used, one that waits for the rest."""
        used, requested = self.used.get(quota, {}), self.requested.get(quota, {})
        rest = {key: amount - used.get(key, 0) for key, amount in requested.items() if amount > used.get(key, 0)}
        holds = QuotaClaim(f"{quota}/used", quota, Tier.PROD, used, 0.0, state=ClaimState.ADMITTED, admitted=used)
        return (holds, QuotaClaim(f"{quota}/queued", quota, Tier.PROD, rest, 0.0))


def moment_key(tree: str, at_s: float) -> str:
    """Returns the key of a tree at a moment: the later, the smaller."""
    return f"{tree}|{_LAST_MS - int(at_s * 1000):013d}"


def before_key(tree: str, at_s: float) -> str:
    """Returns the greatest key that is smaller than that of the moment, and greater than any later one's."""
    return f"{tree}|{_LAST_MS - int(at_s * 1000) - 1:013d}~"


def is_of(key: str, tree: str) -> bool:
    """Returns whether a key is one of this tree."""
    return key.startswith(f"{tree}|")
