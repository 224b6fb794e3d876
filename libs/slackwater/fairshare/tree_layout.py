"""A quota tree prepared for many arbitrations: paths, children, arrays, and fair shares by total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from slackwater.fairshare.batched import arrays_of, matrix, runtimes
from slackwater.fairshare.tree import Amounts, Quota, ledger, top_down

Figures = Mapping[str, Amounts]


class TreeLayout:
    """The declarations of one tree. Own requests and uses of the quotas are ignored: claims are what counts.

    Raises BrokenTree.
    """

    def __init__(self, quotas: Sequence[Quota]) -> None:
        self.order = top_down(quotas)
        """Parents before children."""
        self.quotas: Mapping[str, Quota] = {quota.name: quota for quota in self.order}
        self.paths: dict[str, tuple[str, ...]] = {}
        """From the quota to the one below the root."""
        self.parents: Mapping[str, str] = {quota.name: quota.parent for quota in self.order}
        self.all_lend = all(quota.lends for quota in self.order)
        self.with_children = frozenset(self.parents.values())
        for quota in self.order:
            self.paths[quota.name] = (quota.name, *self.paths.get(quota.parent, ()))
        self._arrays = arrays_of(quotas)
        self._rows = {name: row for row, name in enumerate(self._arrays.names)}
        self._fair: tuple[Amounts, Figures] | None = None

    def shares(self, requested: Figures, total: Amounts) -> tuple[Figures, Figures]:
        """Returns (runtime, min in force) of each quota, for what its own claims request."""
        try:
            own = matrix([requested.get(name, {}) for name in self._arrays.names], self._arrays.resources)
            total_row = np.array([total.get(key, 0) for key in self._arrays.resources], np.int64)
            figures = runtimes(self._arrays, own, total_row)
        except OverflowError:
            return self._plain(requested, total)
        return self._named(figures.runtime.tolist()), self._minimums(figures.minimum.tolist())

    def fair_shares(self, total: Amounts) -> Figures:
        """Returns the runtime of each quota if all requested as much as they may: what its min and weight are worth."""
        if self._fair is None or self._fair[0] != total:
            full = {
                quota.name: {key: min(amount, total.get(key, 0)) for key, amount in quota.maximum.items()}
                for quota in self.order
                if quota.name not in self.with_children
            }
            self._fair = (dict(total), self.shares(full, total)[0])
        return self._fair[1]

    def _plain(self, requested: Figures, total: Amounts) -> tuple[Figures, Figures]:
        """As `shares`, without its limit on the size of numbers."""
        found = ledger([replace(quota, own_request=requested.get(quota.name, {})) for quota in self.order], total)
        minimums = {name: low for level in found.levels.values() for name, low in level.minimum.items()}
        return found.runtime, minimums

    def _named(self, rows: list[list[int]]) -> Figures:
        return {
            quota.name: {
                key: amount
                for key, amount in zip(self._arrays.resources, rows[self._rows[quota.name]], strict=True)
                if key in quota.maximum
            }
            for quota in self.order
        }

    def _minimums(self, rows: list[list[int]]) -> Figures:
        return {
            quota.name: {
                key: amount
                for key, amount in zip(self._arrays.resources, rows[self._rows[quota.name]], strict=True)
                if key in quota.minimum
            }
            for quota in self.order
        }


def layouts(quotas: Sequence[Quota]) -> dict[str, TreeLayout]:
    """Returns a layout for each tree by its id. Raises BrokenTree."""
    trees: dict[str, list[Quota]] = {}
    for quota in quotas:
        trees.setdefault(quota.tree, []).append(quota)
    return {tree: TreeLayout(trees[tree]) for tree in sorted(trees)}
