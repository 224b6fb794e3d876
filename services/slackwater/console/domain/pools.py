"""Pools of nodes: their current water level, and the sums over their offers.

CPU in milli-cores, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.console.domain.views import NodeView
from slackwater.model.quantities import Resources

NOTHING = Resources()


@dataclass(frozen=True, slots=True)
class PoolRow:
    """The nodes of one pool. Amounts cover its fresh nodes.

    `reserve` is per node the larger of system usage and what its operator keeps back; `expected` the larger of what
    prod uses and the peak last predicted for it; `mid` and `batch` are offered to them. `mid_used` is used by mid,
    `borrowed` by batch and free within the offer of their node, `beyond` by them beyond it. `degraded` counts offers
    that are cautious because inputs are old or missing.
    """

    pool: str
    nodes: int
    fresh: int
    above: int
    throttled_pods: int
    degraded: int
    capacity: Resources = NOTHING
    used: Resources = NOTHING
    reserve: Resources = NOTHING
    prod: Resources = NOTHING
    expected: Resources = NOTHING
    mid: Resources = NOTHING
    mid_used: Resources = NOTHING
    batch: Resources = NOTHING
    borrowed: Resources = NOTHING
    beyond: Resources = NOTHING


@dataclass(frozen=True, slots=True)
class PoolSums:
    """The sums of the offers in force of all nodes of a pool, reporting or not: a lost node offers nothing.

    `offering` nodes have an offer of any size; `overoffered` nodes offer more than they have, which is a defect.
    """

    nodes: int
    offering: int
    degraded: int
    overoffered: int
    capacity: Resources
    batch: Resources
    mid: Resources


def pool_sums(nodes: Sequence[NodeView]) -> PoolSums:
    """The sums over these nodes."""
    offers = [node.offer for node in nodes if node.offer is not None]
    return PoolSums(
        nodes=len(nodes),
        offering=len(offers),
        degraded=sum(offer.degraded is not None for offer in offers),
        overoffered=sum(is_overoffered(node) for node in nodes),
        capacity=sum((node.facts.capacity for node in nodes if node.facts), NOTHING),
        batch=sum((offer.batch for offer in offers), NOTHING),
        mid=sum((offer.mid for offer in offers), NOTHING),
    )


def is_overoffered(node: NodeView) -> bool:
    """Whether the node offers more to all lower tiers together than it has."""
    if node.facts is None or node.offer is None:
        return False
    offered, capacity = node.offer.batch + node.offer.mid, node.facts.capacity
    return offered.cpu_milli > capacity.cpu_milli or offered.memory_bytes > capacity.memory_bytes
