"""What each tree of quotas may give out: prod over allocatable, mid and batch over what colocation offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slackwater.cluster.view import Amounts as NodeAmounts
from slackwater.cluster.view import ClusterView, Flags, LivenessCode
from slackwater.fairshare.documents import QuotaPool
from slackwater.fairshare.tree import Amounts
from slackwater.model.records import record


@record(frozen=True, slots=True)
class TreeTotals:
    """`total` is what the tree may give out; nodes that are cordoned or lost do not count."""

    total: Amounts
    nodes: int
    unschedulable: int


def totals_of(view: ClusterView, pools: Sequence[QuotaPool]) -> Mapping[str, TreeTotals]:
    """Returns the totals by tree. The tree "" has the nodes of pools that no profile names."""
    nodes = view.nodes
    named = [pool for pool in pools if pool.tree]
    rest = nodes.exists & (nodes.pool >= 0)
    found: dict[str, TreeTotals] = {}
    for pool in sorted(named, key=lambda pool: pool.tree):
        mine = nodes.exists & _in_pool(view, pool.pool)
        rest = rest & ~mine
        found[pool.tree] = _totals(view, mine, pool)
    return {"": _totals(view, rest, QuotaPool("", "")), **found}


def _in_pool(view: ClusterView, pool: str) -> Flags:
    places = [place for place, name in enumerate(view.nodes.pools) if name == pool]
    return np.isin(view.nodes.pool, places)


def _totals(view: ClusterView, mine: Flags, pool: QuotaPool) -> TreeTotals:
    nodes = view.nodes
    usable = mine & (nodes.liveness != LivenessCode.LOST) & ~nodes.cordoned
    amounts: dict[str, int] = {}
    for prefix, column in (("", nodes.allocatable), ("mid-", nodes.mid), ("batch-", nodes.batch)):
        for resource, amount in zip(("cpu", "memory"), _sum(column, usable), strict=True):
            if not pool.resources or f"{prefix}{resource}" in pool.resources:
                amounts[f"{prefix}{resource}"] = amount * pool.percent // 100
    return TreeTotals(amounts, int(mine.sum()), int((mine & ~usable).sum()))


def _sum(column: NodeAmounts, usable: Flags) -> tuple[int, int]:
    cpu, memory = column.total(usable)
    return max(cpu, 0), max(memory, 0)
