"""The working state of one tree during one arbitration: what is used now, and what will be once all orders are done.

A claim is admitted if it fits into both: into what is used now, claims being reclaimed included; and into what remains
once those have ended and everything that is kept for others has been admitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slackwater.fairshare.admission import LimitExcess, QuotaLimit
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.occupancy import Occupancy
from slackwater.fairshare.tree import ROOT, Amounts
from slackwater.fairshare.tree_layout import Figures, TreeLayout


class TreeState:
    """Reads the index, changes nothing in it."""

    def __init__(
        self,
        layout: TreeLayout,
        index: ClaimIndex,
        total: Amounts,
        excluded: Iterable[QuotaClaim] = (),
        apart: Amounts | None = None,
    ) -> None:
        """`excluded`: queued claims that count in no request, because they can never fit or exceed the pool. `apart`:
        what claims hold of the pool in quotas that are gone, or not known yet."""
        self.layout = layout
        self.index = index
        self.total = total
        held: dict[str, Amounts] = {name: amounts for name, amounts in index.used.items() if name in layout.quotas}
        self.apart = {ROOT: apart} if apart else {}
        self.runtime = layout.runtimes(_requested(layout, index, excluded), total)
        self.entitled = layout.entitlements(total)
        self.fair = layout.fair_shares(total)
        self.now = Occupancy(layout, self.entitled, total, held | self.apart)
        self.after = Occupancy(layout, self.entitled, total, held | self.apart)
        self.used: dict[str, dict[str, int]] = {}
        """Used now by quota, descendants included."""
        self._bound: dict[str, dict[str, int]] = {}
        for name, amounts in held.items():
            self._climb(self.used, name, amounts)
        for name, amounts in index.non_preemptible_used.items():
            if name in layout.quotas:
                self._climb(self._bound, name, amounts)
        for claim in index.reclaiming.values():
            if claim.quota in layout.quotas:
                self.after.add(claim.quota, claim.holds, -1)

    def fits(self, claim: QuotaClaim, amounts: Amounts) -> bool:
        """Returns whether the claim may be admitted with these amounts, whatever its share."""
        return (
            self.now.fits(claim.quota, amounts)
            and self.after.fits(claim.quota, amounts)
            and not (claim.non_preemptible and self.min_excesses(claim, amounts))
        )

    def min_excesses(self, claim: QuotaClaim, amounts: Amounts) -> list[LimitExcess]:
        """Returns where a claim that is not preemptible would go beyond a min on its path."""
        return [
            LimitExcess(name, QuotaLimit.MIN, resource, used, amount, allowed)
            for name in self.layout.paths[claim.quota]
            for resource, amount in amounts.items()
            if amount > 0
            for used in (self._bound.get(name, {}).get(resource, 0),)
            for allowed in (self.layout.quotas[name].minimum.get(resource, 0),)
            if used + amount > allowed
        ]

    def within(self, limits: Figures, quota: str, amounts: Amounts) -> bool:
        """Returns whether the quota stays within its limit with these amounts."""
        occupied, needed = self.after.of(quota), [resource for resource, amount in amounts.items() if amount > 0]
        maximum = self.layout.quotas[quota].maximum
        if limits is self.entitled and needed and not any(resource in maximum for resource in needed):
            return False
        return all(
            occupied.get(resource, 0) + amounts[resource] <= self._limit(limits, quota, resource) for resource in needed
        )

    def largest(self, claim: QuotaClaim, limits: Figures | None) -> Amounts | None:
        """Returns the most that a claim with a partial minimum may be admitted with, None if less than that.

        All resources are cut in the proportion of the scarcest, but none below its minimum.
        """
        if claim.partial_minimum is None:
            return None
        room = {resource: self._room(claim, resource, limits) for resource in claim.request}
        free, whole = 1, 1
        for resource, amount in claim.request.items():
            if amount > 0 and room[resource] * whole < free * amount:
                free, whole = room[resource], amount
        least = claim.partial_minimum
        found = {
            resource: min(max(amount * free // whole, least.get(resource, 0)), amount)
            for resource, amount in claim.request.items()
        }
        enough = any(found.values()) and all(found[resource] <= room[resource] for resource in found)
        return found if enough and self.fits(claim, found) else None

    def admit(self, claim: QuotaClaim, amounts: Amounts) -> None:
        """Count the claim as used."""
        self.now.add(claim.quota, amounts)
        self._climb(self.used, claim.quota, amounts)
        self.keep(claim, amounts)

    def keep(self, claim: QuotaClaim, amounts: Amounts) -> None:
        """Count the claim as admitted later: nothing else may use what it needs."""
        self.after.add(claim.quota, amounts)
        if claim.non_preemptible:
            self._climb(self._bound, claim.quota, amounts)

    def release_kept(self, claim: QuotaClaim, amounts: Amounts) -> None:
        """Undo `keep`."""
        self.after.add(claim.quota, amounts, -1)
        if claim.non_preemptible:
            self._climb(self._bound, claim.quota, {resource: -amount for resource, amount in amounts.items()})

    def share(self, name: str) -> float:
        """Returns the dominant used-to-fair-share of a quota, descendants included; 0 where it uses nothing."""
        used, fair = self.used.get(name), self.fair[name]
        if not used:
            return 0.0
        return max((_ratio(used.get(resource, 0), fair[resource]) for resource in fair), default=0.0)

    def above_runtime(self, name: str, occupied: Amounts) -> dict[str, int]:
        """Returns by how much `occupied` is above the quota's runtime, in the resources where it is."""
        runtime = self.runtime[name]
        return {
            resource: occupied.get(resource, 0) - amount
            for resource, amount in runtime.items()
            if occupied.get(resource, 0) > amount
        }

    def _limit(self, limits: Figures, quota: str, resource: str) -> int:
        """Returns how much of a resource the quota may use within `limits`.

        A resource that its max does not name has no min either: there its runtime is what belongs to it, so that a
        quota of memory alone gets its min of memory for claims that need some CPU.
        """
        is_named = limits is not self.entitled or resource in self.layout.quotas[quota].maximum
        return (limits if is_named else self.runtime)[quota].get(resource, 0)

    def _room(self, claim: QuotaClaim, resource: str, limits: Figures | None) -> int:
        found = min(self.now.room(claim.quota, resource), self.after.room(claim.quota, resource))
        path, quotas = self.layout.paths[claim.quota], self.layout.quotas
        if limits is not None:
            occupied = self.after.of(claim.quota).get(resource, 0)
            found = min(found, self._limit(limits, claim.quota, resource) - occupied)
        if claim.non_preemptible:
            for name in path:
                bound = self._bound.get(name, {}).get(resource, 0)
                found = min(found, quotas[name].minimum.get(resource, 0) - bound)
        return max(found, 0)

    def _climb(self, sums: dict[str, dict[str, int]], quota: str, amounts: Amounts) -> None:
        for name in self.layout.paths[quota]:
            found = sums.setdefault(name, {})
            for resource, amount in amounts.items():
                found[resource] = found.get(resource, 0) + amount


def _requested(layout: TreeLayout, index: ClaimIndex, excluded: Iterable[QuotaClaim]) -> Figures:
    found: dict[str, Mapping[str, int]] = {name: index.requested[name] for name in index.requested}
    for claim in excluded:
        sums = dict(found[claim.quota])
        for resource, amount in claim.request.items():
            sums[resource] -= amount
        found[claim.quota] = sums
    return {name: amounts for name, amounts in found.items() if name in layout.quotas}


def _ratio(used: int, fair: int) -> float:
    if used <= 0:
        return 0.0
    return used / fair if fair > 0 else float("inf")
