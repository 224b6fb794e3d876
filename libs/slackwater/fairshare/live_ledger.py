"""A ledger that is kept up to date: a changed request costs its path to the root and the siblings along it.

Equal to `tree.ledger` (tests compare). A level is shared anew only when one of its quotas is asked for and what the
level rests on has changed: the total from above, or what a child requests. Below siblings whose runtime changed nothing
is computed until one of them is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.fairshare.tree import (
    ROOT,
    Amounts,
    Quota,
    QuotaDemand,
    QuotaLevel,
    children_of,
    demand_of,
    level_runtime,
    share_level,
    top_down,
)


class LiveLedger:
    """One tree. Not for two writers."""

    def __init__(self, quotas: Sequence[Quota], total: Amounts) -> None:
        """Raises BrokenTree."""
        order = top_down(quotas)
        self._quotas = {quota.name: quota for quota in order}
        self._children = children_of(quotas)
        self._total = dict(total)
        self._demand: dict[str, QuotaDemand] = {}
        for quota in reversed(order):
            self._demand[quota.name] = self._summed(quota)
        self._levels: dict[str, QuotaLevel] = {}
        self._runtimes: dict[str, Mapping[str, Amounts]] = {}
        """Of the children, by parent."""
        self.levels_shared = 0
        """How many levels have been computed since the start."""
        self.demands_summed = 0
        """How many quotas' demand has been computed again."""

    def set_total(self, total: Amounts) -> None:
        """Replace what the pool has."""
        self._total = dict(total)

    def set_request(self, name: str, own_request: Amounts) -> None:
        """Replace what the claims of a quota request. Raises KeyError for an unknown quota."""
        self._quotas[name] = replace(self._quotas[name], own_request=dict(own_request))
        while name != ROOT:
            quota = self._quotas[name]
            before = self._demand[name]
            self._demand[name] = self._summed(quota)
            self.demands_summed += 1
            if self._demand[name].limited == before.limited:
                return
            siblings = self._children[quota.parent]
            place = next(number for number, each in enumerate(siblings) if each.name == name)
            siblings[place] = quota
            self._levels.pop(quota.parent, None)
            name = quota.parent

    def demand(self, name: str) -> QuotaDemand:
        """Returns what a quota asks for. Raises KeyError for an unknown quota."""
        return self._demand[name]

    def runtime(self, name: str) -> Amounts:
        """Returns the runtime of a quota. Raises KeyError for an unknown quota."""
        found: Amounts = self._total
        path = [name]
        while (parent := self._quotas[path[-1]].parent) != ROOT:
            path.append(parent)
        parent = ROOT
        for child in reversed(path):
            level = self._levels.get(parent)
            if level is None or level.total != found:
                self._share(parent, found)
            found = self._runtimes[parent][child]
            parent = child
        return found

    def _share(self, parent: str, total: Amounts) -> None:
        children = self._children[parent]
        self._levels[parent] = level = share_level(parent, total, children, self._demand)
        self._runtimes[parent] = level_runtime(level, children)
        self.levels_shared += 1

    def _summed(self, quota: Quota) -> QuotaDemand:
        return demand_of(quota, [self._demand[child.name] for child in self._children.get(quota.name, ())])
