"""One tree as a replica knows it, and what a change of its claims does to the use of its quotas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ENDED, QuotaClaim
from slackwater.fairshare.tree import ROOT, Amounts, Quota, path_to_root
from slackwater.quota.domain.ledger_records import KeptClaim, QuotaUse, StoredTree

Uses = dict[str, dict[str, int]]


class TreeLedger:
    """Claims that have not ended, indexed for the arbitration. It is thrown away when a write of it is refused."""

    def __init__(self, stored: StoredTree, kept: Iterable[KeptClaim] = ()) -> None:
        self.stored = stored
        self.kept: dict[str, KeptClaim] = {each.claim.id: each for each in kept}
        self.index = ClaimIndex(each.claim for each in self.kept.values())

    @property
    def claims(self) -> Mapping[str, QuotaClaim]:
        return self.index.by_id

    def put(self, kept: KeptClaim) -> None:
        """Replace a claim; one that has ended is dropped."""
        self.index.put(kept.claim)
        if kept.claim.state in ENDED:
            self.kept.pop(kept.claim.id, None)
        else:
            self.kept[kept.claim.id] = kept


def uses(quotas: Mapping[str, Quota], own: Mapping[str, Amounts]) -> Uses:
    """Returns what each quota uses with all that are below it; the root too. `own` is by quota, claims only."""
    parents = {quota.name: quota.parent for quota in quotas.values()}
    uses_by_quota: Uses = {}
    for name, amounts in own.items():
        for above in path_to_root(parents, name) if name in parents else (name, ROOT):
            sums = uses_by_quota.setdefault(above, {})
            for resource, amount in amounts.items():
                sums[resource] = sums.get(resource, 0) + amount
    return uses_by_quota


def uses_to_write(
    quotas: Mapping[str, Quota], tree: str, before: Uses, after: Uses, touched: Collection[str]
) -> Sequence[QuotaUse]:
    """Returns the rows of the touched quotas and of those above them. The root's has no ceiling: what a pool has may
    shrink under what is used."""
    parents = {quota.name: quota.parent for quota in quotas.values()}
    names = {above for name in touched for above in path_to_root(parents, name) if above in quotas}
    return [
        QuotaUse(
            name, tree, after.get(name, {}), ceiling(quotas[name].maximum, before.get(name, {}), after.get(name, {}))
        )
        for name in sorted(names)
    ]


def ceiling(maximum: Amounts, before: Amounts, after: Amounts) -> dict[str, int]:
    """Returns what a quota may use: its max; what it uses while that is more and does not rise, because the max was
    lowered since."""
    return {
        resource: max(most, after.get(resource, 0)) if after.get(resource, 0) <= before.get(resource, 0) else most
        for resource, most in maximum.items()
    }
