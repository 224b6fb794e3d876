"""What each tree of quotas may give out: prod over allocatable, mid and batch over what colocation offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from slackwater.cluster.view import Amounts as NodeAmounts
from slackwater.cluster.view import ClusterView, Flags, LivenessCode
from slackwater.fairshare.documents import QuotaPool
from slackwater.fairshare.tree import Amounts, added
from slackwater.model.records import record


@record(frozen=True, slots=True)
class TreeTotals:
    """`total` is what the tree may give out; nodes that are cordoned or lost do not count, and what pods of the system
    itself request there is taken off. `reserved` is what is kept there for pods to come: it counts as used, in no
    quota."""

    total: Amounts
    nodes: int
    unschedulable: int
    system: Amounts = field(default_factory=dict)
    reserved: Amounts = field(default_factory=dict)


@record(frozen=True, slots=True)
class NodeKept:
    """What reservations keep on one node, and what its offers are already without because of them; by resource."""

    held: Amounts
    offered_without: Amounts = field(default_factory=dict)

    def of(self, resource: str, offered: int) -> tuple[int, int]:
        """Returns what is kept of a resource, and what the node has with it.

        The two events come one after the other: of both the larger counts, so that nothing is given out twice between
        them. What a node does not have is not taken off those of others.
        """
        whole = offered + self.offered_without.get(resource, 0)
        return min(max(self.held.get(resource, 0), whole - offered), whole), whole


def totals_of(
    view: ClusterView,
    pools: Sequence[QuotaPool],
    system: Mapping[str, Amounts] | None = None,
    reserved: Mapping[str, NodeKept] | None = None,
) -> Mapping[str, TreeTotals]:
    """Returns the totals by tree. `system` is what pods of the system request, `reserved` what is kept for pods to
    come, by node."""
    trees = {pool.tree: pool for pool in pools if pool.tree}
    return {
        tree: _totals(view, mine, trees.get(tree, QuotaPool("", "")), system or {}, reserved or {})
        for tree, mine in _members(view, pools).items()
    }


def tree_nodes(view: ClusterView, pools: Sequence[QuotaPool]) -> Mapping[str, Sequence[str]]:
    """Returns the names of the nodes of each tree."""
    return {
        tree: [view.nodes.names[row] for row in np.flatnonzero(mine).tolist()]
        for tree, mine in _members(view, pools).items()
    }


def _members(view: ClusterView, pools: Sequence[QuotaPool]) -> Mapping[str, Flags]:
    """The tree "" has the nodes of pools that no profile names."""
    nodes = view.nodes
    rest = nodes.exists & (nodes.pool >= 0)
    flags: dict[str, Flags] = {}
    for pool in sorted((pool for pool in pools if pool.tree), key=lambda pool: pool.tree):
        mine = nodes.exists & _in_pool(view, pool.pool)
        rest = rest & ~mine
        flags[pool.tree] = mine
    return {"": rest, **flags}


def _in_pool(view: ClusterView, pool: str) -> Flags:
    places = [place for place, name in enumerate(view.nodes.pools) if name == pool]
    return np.isin(view.nodes.pool, places)


def _totals(
    view: ClusterView,
    mine: Flags,
    pool: QuotaPool,
    system: Mapping[str, Amounts],
    reserved: Mapping[str, NodeKept],
) -> TreeTotals:
    nodes = view.nodes
    usable = mine & (nodes.liveness != LivenessCode.LOST) & ~nodes.cordoned
    of_system = added(*(amounts for node, amounts in system.items() if node in nodes.rows and usable[nodes.rows[node]]))
    columns = (("", nodes.allocatable), ("mid-", nodes.mid), ("batch-", nodes.batch))
    rows = {node: nodes.rows[node] for node in reserved if node in nodes.rows and usable[nodes.rows[node]]}
    amounts: dict[str, int] = {}
    held: dict[str, int] = {}
    for prefix, column in columns:
        for place, (resource, amount) in enumerate(zip(("cpu", "memory"), _sum(column, usable), strict=True)):
            name = f"{prefix}{resource}"
            if not pool.resources or name in pool.resources:
                whole = amount
                for node, row in rows.items():
                    offered = int(column.value[row, place]) if column.known[row, place] else 0
                    taken, with_taken = reserved[node].of(name, offered)
                    whole += with_taken - offered
                    held[name] = held.get(name, 0) + taken
                amounts[name] = max(whole - of_system.get(name, 0), 0) * pool.percent // 100
    held = {name: amount for name, amount in held.items() if amount > 0}
    return TreeTotals(amounts, int(mine.sum()), int((mine & ~usable).sum()), of_system, held)


def _sum(column: NodeAmounts, usable: Flags) -> tuple[int, int]:
    cpu, memory = column.total(usable)
    return max(cpu, 0), max(memory, 0)
