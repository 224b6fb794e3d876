"""Which quota is served next: the one that uses least of its fair share, from the root down; ties by name."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from slackwater.fairshare.tree import ROOT
from slackwater.fairshare.tree_layout import TreeLayout


class TurnOrder:
    """Quotas with waiting claims. At each level the child with the lowest share is next."""

    def __init__(self, layout: TreeLayout, quotas: Iterable[str], share: Callable[[str], float]) -> None:
        self._layout = layout
        self._share = share
        self._heaps: dict[str, list[tuple[float, str]]] = {}
        known: set[str] = set()
        for quota in quotas:
            for name in layout.paths[quota]:
                if name not in known:
                    known.add(name)
                    self._heaps.setdefault(layout.parents[name], []).append((share(name), name))
        for heap in self._heaps.values():
            heapq.heapify(heap)

    def next(self) -> str | None:
        """Returns the quota whose turn it is; None if no claim waits any more."""
        name = ROOT
        while heap := self._heaps.get(name):
            name = heap[0][1]
        return None if name == ROOT else name

    def served(self, quota: str) -> None:
        """Note that the quota whose turn it was has been admitted a claim."""
        for name in self._layout.paths[quota]:
            heapq.heapreplace(self._heaps[self._layout.parents[name]], (self._share(name), name))

    def done(self, quota: str) -> None:
        """Remove the quota whose turn it was: none of its claims can be admitted now."""
        for name in self._layout.paths[quota]:
            if self._heaps.get(name):
                return
            heapq.heappop(self._heaps[self._layout.parents[name]])
