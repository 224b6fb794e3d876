"""How much of each limit on the way to the root is occupied, and whether something more fits.

What a quota does not lend of its min counts as occupied above it, used or not, and is free below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slackwater.fairshare.admission import LimitExcess, QuotaLimit
from slackwater.fairshare.tree import ROOT, Amounts
from slackwater.fairshare.tree_layout import Figures, TreeLayout


class Occupancy:
    """The sums of a tree at one moment, changed claim by claim."""

    def __init__(self, layout: TreeLayout, entitled: Figures, total: Amounts, used: Figures) -> None:
        self._layout = layout
        self._entitled = entitled
        self._total = total
        self._sums: dict[str, dict[str, int]] = {name: dict(amounts) for name, amounts in used.items()}
        for quota in reversed(layout.order):
            if quota.name in self._sums or not quota.lends:
                above = self._sums.setdefault(quota.parent, {})
                for resource, amount in self._seen(quota.name).items():
                    above[resource] = above.get(resource, 0) + amount

    def of(self, name: str) -> Amounts:
        """Returns what is occupied in a quota, or in the tree (ROOT)."""
        return self._sums.get(name, {})

    def add(self, quota: str, amounts: Amounts, sign: int = 1) -> None:
        """Count amounts in the quota and above; `sign` -1 lets them go."""
        for name, resource, _, change in self._changes(quota, amounts, sign):
            sums = self._sums.setdefault(name, {})
            sums[resource] = sums.get(resource, 0) + change

    def fits(self, quota: str, amounts: Amounts) -> bool:
        """Returns whether no limit is exceeded by what the amounts add."""
        return next(self._beyond(quota, amounts), None) is None

    def excesses(self, quota: str, amounts: Amounts) -> list[LimitExcess]:
        """Returns every limit that the amounts would exceed; the pool's total under the name of the root."""
        return list(self._beyond(quota, amounts))

    def room(self, quota: str, resource: str) -> int:
        """Returns how much of a resource fits at most, not counting what the quotas on the way do not lend."""
        found = self._total.get(resource, 0) - self.of(ROOT).get(resource, 0)
        for name in self._layout.paths[quota]:
            maximum = self._layout.quotas[name].maximum
            if resource in maximum:
                found = min(found, maximum[resource] - self.of(name).get(resource, 0))
        return max(found, 0)

    def _beyond(self, quota: str, amounts: Amounts) -> Iterator[LimitExcess]:
        for name, resource, occupied, change in self._changes(quota, amounts, 1):
            if change <= 0:
                continue
            if name == ROOT:
                limit, allowed = QuotaLimit.TOTAL, self._total.get(resource, 0)
            else:
                maximum = self._layout.quotas[name].maximum
                if resource not in maximum:
                    continue
                limit, allowed = QuotaLimit.MAX, maximum[resource]
            if occupied + change > allowed:
                yield LimitExcess(name, limit, resource, occupied, change, allowed)

    def _changes(self, quota: str, amounts: Amounts, sign: int) -> Iterator[tuple[str, str, int, int]]:
        """Yields (node, resource, occupied before, change) from the quota to the root, for each resource."""
        path, quotas, sums = self._layout.paths[quota], self._layout.quotas, self._sums
        for resource, amount in amounts.items():
            change = amount * sign
            for name in path:
                if not change:
                    break
                occupied = sums[name].get(resource, 0) if name in sums else 0
                yield name, resource, occupied, change
                if not quotas[name].lends:
                    kept = self._entitled[name].get(resource, 0)
                    change = max(occupied + change, kept) - max(occupied, kept)
            if change:
                yield ROOT, resource, sums[ROOT].get(resource, 0) if ROOT in sums else 0, change

    def _seen(self, name: str) -> Amounts:
        """Returns what the parent sees occupied."""
        sums = self._sums.get(name, {})
        if self._layout.quotas[name].lends:
            return sums
        kept = self._entitled[name]
        return {key: max(sums.get(key, 0), kept.get(key, 0)) for key in {*sums, *kept}}


def entitlements(layout: TreeLayout, minimums: Figures) -> Figures:
    """Returns what each quota may have whatever others do: its min in force, or what it is guaranteed if that is more.

    Quotas that neither declare are left with nothing.
    """
    found: dict[str, Mapping[str, int]] = {}
    for quota in layout.order:
        minimum = minimums.get(quota.name, {})
        if quota.guaranteed:
            keys = {*minimum, *quota.guaranteed}
            minimum = {key: max(minimum.get(key, 0), quota.guaranteed.get(key, 0)) for key in keys}
        found[quota.name] = minimum
    return found
