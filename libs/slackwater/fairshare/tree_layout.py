"""A quota tree prepared for many arbitrations: paths, children, arrays, and fair shares by total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from slackwater.fairshare.batched import arrays_of, entitlements, matrix, runtimes
from slackwater.fairshare.exact import Ints
from slackwater.fairshare.tree import Amounts, Quota, ledger, top_down
from slackwater.fairshare.tree import entitlements as plain_entitlements

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
        self._entitled: tuple[Amounts, Figures] | None = None

    def runtimes(self, requested: Figures, total: Amounts) -> Figures:
        """Returns the runtime of each quota, for what its own claims request."""
        try:
            own = matrix([requested.get(name, {}) for name in self._arrays.names], self._arrays.resources)
            figures = runtimes(self._arrays, own, self._row(total))
        except OverflowError:
            return self._plain(requested, total)
        return self._named(figures.runtime.tolist())

    def entitlements(self, total: Amounts) -> Figures:
        """Returns what each quota may have whatever others request; one that declares neither min nor guaranteed amount
        has nothing."""
        if self._entitled is None or self._entitled[0] != total:
            try:
                found: Figures = self._declared(entitlements(self._arrays, self._row(total)).tolist())
            except OverflowError:
                found = plain_entitlements(self.order, total)
            self._entitled = (dict(total), found)
        return self._entitled[1]

    def fair_shares(self, total: Amounts) -> Figures:
        """Returns the runtime of each quota if all requested as much as they may: what its min and weight are worth."""
        if self._fair is None or self._fair[0] != total:
            full = {
                quota.name: {key: min(amount, total.get(key, 0)) for key, amount in quota.maximum.items()}
                for quota in self.order
                if quota.name not in self.with_children
            }
            self._fair = (dict(total), self.runtimes(full, total))
        return self._fair[1]

    def _plain(self, requested: Figures, total: Amounts) -> Figures:
        """As `runtimes`, without its limit on the size of numbers."""
        quotas = [replace(quota, own_request=requested.get(quota.name, {})) for quota in self.order]
        return ledger(quotas, total).runtime

    def _row(self, total: Amounts) -> Ints:
        return np.array([total.get(key, 0) for key in self._arrays.resources], np.int64)

    def _named(self, rows: list[list[int]]) -> Figures:
        return {
            quota.name: {
                key: amount
                for key, amount in zip(self._arrays.resources, rows[self._rows[quota.name]], strict=True)
                if key in quota.maximum
            }
            for quota in self.order
        }

    def _declared(self, rows: list[list[int]]) -> Figures:
        return {
            quota.name: {
                key: amount
                for key, amount in zip(self._arrays.resources, rows[self._rows[quota.name]], strict=True)
                if key in quota.minimum or key in quota.guaranteed
            }
            for quota in self.order
        }


def layouts(quotas: Sequence[Quota]) -> dict[str, TreeLayout]:
    """Returns a layout for each tree by its id. Raises BrokenTree."""
    trees: dict[str, list[Quota]] = {}
    for quota in quotas:
        trees.setdefault(quota.tree, []).append(quota)
    return {tree: TreeLayout(trees[tree]) for tree in sorted(trees)}
