"""How much of each limit on the way to the root is occupied, and whether something more fits.

What a quota does not lend of its min counts as occupied above it, used or not, and is free below it.
"""

from __future__ import annotations

from collections.abc import Iterator

from slackwater.fairshare.admission import LimitExcess, QuotaLimit, shortages
from slackwater.fairshare.tree import ROOT, Amounts
from slackwater.fairshare.tree_layout import Figures, TreeLayout

Sums = dict[str, dict[str, int]]


class Occupancy:
    """The sums of a tree at one moment, changed claim by claim."""

    def __init__(self, layout: TreeLayout, entitled: Figures, total: Amounts, used: Figures) -> None:
        self._layout = layout
        self._entitled = entitled
        self._total = total
        self._used: Sums = {name: dict(amounts) for name, amounts in used.items()}
        for quota in reversed(layout.order):
            _accumulate(self._used, quota.parent, self._used.get(quota.name, {}))
        self._seen = self._used
        """As `_used`, with what is not lent counted as used above its quota."""
        if not layout.all_lend:
            self._seen = {name: dict(amounts) for name, amounts in used.items()}
            for quota in reversed(layout.order):
                _accumulate(self._seen, quota.parent, self._above(quota.name))

    def of(self, name: str) -> Amounts:
        """Returns what is used in a quota, or in the tree (ROOT), without what is not lent."""
        return self._used.get(name, {})

    def add(self, quota: str, amounts: Amounts, sign: int = 1) -> None:
        """Count amounts in the quota and above; `sign` -1 lets them go."""
        if self._seen is not self._used:
            for name, resource, _, change in self._changes(quota, amounts, sign):
                _accumulate(self._seen, name, {resource: change})
        for name in (*self._layout.paths[quota], ROOT):
            sums = self._used.setdefault(name, {})
            for resource, amount in amounts.items():
                sums[resource] = sums.get(resource, 0) + sign * amount

    def fits(self, quota: str, amounts: Amounts) -> bool:
        """Returns whether no limit is exceeded by what the amounts add: as `excesses`, without naming them."""
        used, quotas = self._used, self._layout.quotas
        root = used.get(ROOT, {})
        for resource, amount in amounts.items():
            if amount <= 0:
                continue
            if root.get(resource, 0) + amount > self._total.get(resource, 0):
                return False
            for name in self._layout.paths[quota]:
                maximum = quotas[name].maximum
                occupied = used[name].get(resource, 0) if name in used else 0
                if resource in maximum and occupied + amount > maximum[resource]:
                    return False
        return self._seen is self._used or not any(self._beyond(quota, amounts))

    def excesses(self, quota: str, amounts: Amounts) -> list[LimitExcess]:
        """Returns every limit that the amounts would exceed; the pool's total under the name of the root."""
        return list(self._beyond(quota, amounts))

    def excesses_of_pool(self, quota: str, amounts: Amounts) -> list[LimitExcess]:
        """Returns where the amounts are more than the pool has beside what other quotas occupy: that is `used`."""
        left = {key: amount for key, amount in amounts.items() if amount > 0}
        changes = {key: change for name, key, _, change in self._changes(quota, left, 1) if name == ROOT}
        found = []
        for resource, amount in left.items():
            allowed, change = self._total.get(resource, 0), changes.get(resource, 0)
            occupied = _amount(self._seen, ROOT, resource) + change
            if amount > allowed or (change and occupied > allowed):
                others = max(occupied - amount, 0)
                found.append(LimitExcess(ROOT, QuotaLimit.TOTAL, resource, others, amount, allowed))
        return found

    def shortfall(self, quota: str, amounts: Amounts) -> dict[str, int]:
        """Returns by resource how much would have to become free for the amounts to fit, at the tightest limit."""
        found = shortages(self.excesses(quota, amounts))  # of what is used: beyond a limit it counts without mins
        wanted = {resource: amount for resource, amount in amounts.items() if amount > 0}
        for name, resource, seen, change in self._changes(quota, wanted, 1):
            excess = self._excess(name, resource, seen, change)
            if excess is not None:
                found[resource] = max(found.get(resource, 0), seen + change - excess.allowed)
        return found

    def room(self, quota: str, resource: str) -> int:
        """Returns how much of a resource fits: the most for which `fits` holds."""
        path, quotas = self._layout.paths[quota], self._layout.quotas
        limits = [(name, quotas[name].maximum[resource]) for name in path if resource in quotas[name].maximum]
        limits.append((ROOT, self._total.get(resource, 0)))
        found = min(limit - _amount(self._used, name, resource) for name, limit in limits)
        if self._seen is not self._used:
            own, bounds = 0, dict(limits)
            for name in (*path, ROOT):
                seen = _amount(self._seen, name, resource)
                if name in bounds:
                    found = min(found, max(bounds[name] - seen, 0) + own)
                if name != ROOT and not quotas[name].lends:
                    own += max(self._entitled[name].get(resource, 0) - seen, 0)
        return max(found, 0)

    def _beyond(self, quota: str, amounts: Amounts) -> Iterator[LimitExcess]:
        """Where what is used alone exceeds a limit, that is yielded; what is not lent counts only where it does not."""
        for resource, amount in amounts.items():
            if amount <= 0:
                continue
            exceeded: set[str] = set()
            for name in (*self._layout.paths[quota], ROOT):
                used = _amount(self._used, name, resource)
                excess = self._excess(name, resource, used, amount)
                if excess is not None:
                    exceeded.add(name)
                    yield excess
            if self._seen is not self._used:
                for name, _, seen, change in self._changes(quota, {resource: amount}, 1):
                    excess = None if name in exceeded else self._excess(name, resource, seen, change)
                    if excess is not None:
                        yield excess

    def _excess(self, name: str, resource: str, occupied: int, amount: int) -> LimitExcess | None:
        if name == ROOT:
            limit, allowed = QuotaLimit.TOTAL, self._total.get(resource, 0)
        else:
            maximum = self._layout.quotas[name].maximum
            if resource not in maximum:
                return None
            limit, allowed = QuotaLimit.MAX, maximum[resource]
        return LimitExcess(name, limit, resource, occupied, amount, allowed) if occupied + amount > allowed else None

    def _changes(self, quota: str, amounts: Amounts, sign: int) -> Iterator[tuple[str, str, int, int]]:
        """Yields (node, resource, seen before, change) from the quota up, as far as something changes."""
        path, quotas, sums = self._layout.paths[quota], self._layout.quotas, self._seen
        for resource, amount in amounts.items():
            change = amount * sign
            for name in path:
                if not change:
                    break
                occupied = _amount(sums, name, resource)
                yield name, resource, occupied, change
                if not quotas[name].lends:
                    kept = self._entitled[name].get(resource, 0)
                    change = max(occupied + change, kept) - max(occupied, kept)
            if change:
                yield ROOT, resource, _amount(sums, ROOT, resource), change

    def _above(self, name: str) -> Amounts:
        """Returns what the parent sees of a quota."""
        sums = self._seen.get(name, {})
        if self._layout.quotas[name].lends:
            return sums
        kept = self._entitled[name]
        return {key: max(sums.get(key, 0), kept.get(key, 0)) for key in {*sums, *kept}}


def _amount(sums: Sums, name: str, resource: str) -> int:
    return sums[name].get(resource, 0) if name in sums else 0


def _accumulate(sums: Sums, name: str, amounts: Amounts) -> None:
    if amounts:
        found = sums.setdefault(name, {})
        for resource, amount in amounts.items():
            found[resource] = found.get(resource, 0) + amount
