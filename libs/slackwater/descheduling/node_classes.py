"""Classes of nodes by load: which may give pods and which may take them. Source: koordinator's LowNodeLoad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from slackwater.descheduling.placement import PODS, Amounts, LoadSource, PlacedPod, PlacementNode
from slackwater.descheduling.thresholds import Percents, ThresholdPair, amount_of, mean_percents
from slackwater.model.records import record
from slackwater.model.tiers import Tier


class NodeClass(StrEnum):
    """By the load of all pods, and by that of prod alone."""

    LOW = "low"
    BOTH_LOW = "bothLow"
    PROD_LOW = "prodLow"
    NORMAL = "normal"
    PROD_HIGH = "prodHigh"
    HIGH = "high"


SOURCES = frozenset({NodeClass.HIGH, NodeClass.PROD_HIGH})
LOW_NODES = frozenset({NodeClass.LOW, NodeClass.BOTH_LOW})
PROD_LOW_NODES = frozenset({NodeClass.PROD_LOW, NodeClass.BOTH_LOW})


@record(frozen=True, slots=True)
class NodeLoad:
    """Loads and thresholds of a node, as amounts of the resources that have thresholds."""

    node: PlacementNode
    pods: Sequence[PlacedPod]
    usage: Amounts
    """Of the system and all pods."""
    prod: Amounts
    low: Amounts
    high: Amounts
    prod_low: Amounts
    prod_high: Amounts

    @property
    def node_class(self) -> NodeClass:
        """The first class that holds."""
        open_to_pods = not self.node.unschedulable
        prod_over = over(self.prod, self.prod_high)
        prod_under = not over(self.prod, self.prod_low)
        if open_to_pods and not over(self.usage, self.low):
            if prod_over:
                return NodeClass.PROD_HIGH
            return NodeClass.BOTH_LOW if prod_under else NodeClass.LOW
        if over(self.usage, self.high):
            return NodeClass.HIGH
        if prod_over:
            return NodeClass.PROD_HIGH
        return NodeClass.PROD_LOW if prod_under and open_to_pods else NodeClass.NORMAL


def over(usage: Amounts, limits: Amounts) -> bool:
    """Whether any resource is above its limit."""
    return any(usage.get(name, 0) > limit for name, limit in limits.items())


def node_loads(
    nodes: Sequence[PlacementNode],
    pods: Mapping[str, Sequence[PlacedPod]],
    thresholds: ThresholdPair,
    prod_thresholds: ThresholdPair,
    *,
    use_deviation: bool,
    source: LoadSource,
) -> list[NodeLoad]:
    """Returns loads and thresholds of the nodes of a pool. The load of a node is summed, not measured as a whole, so
    that it falls as soon as a pod leaves."""
    pair, prod_pair = (each.completed(deviation=use_deviation) for each in (thresholds, prod_thresholds))
    names = [*pair.low, *(name for name in prod_pair.low if name not in pair.low)]
    sums = [_sums(node, pods.get(node.name, ()), names, source) for node in nodes]
    if use_deviation:
        capacities = [node.allocatable for node in nodes]
        pair = pair.around(mean_percents([usage for usage, _ in sums], capacities, names))
        prod_pair = prod_pair.around(mean_percents([prod for _, prod in sums], capacities, names))
    return [
        NodeLoad(
            node,
            pods.get(node.name, ()),
            usage,
            prod,
            *(_amounts(each, node) for each in (pair.low, pair.high, prod_pair.low, prod_pair.high)),
        )
        for node, (usage, prod) in zip(nodes, sums, strict=True)
    ]


def _amounts(percents: Percents, node: PlacementNode) -> dict[str, int]:
    """A resource that the node does not have is neither low nor high there."""
    capacity = node.allocatable
    return {name: amount_of(percent, capacity[name]) for name, percent in percents.items() if name in capacity}


def _sums(
    node: PlacementNode, pods: Sequence[PlacedPod], names: Sequence[str], source: LoadSource
) -> tuple[dict[str, int], dict[str, int]]:
    system = node.system_load(source)
    usage = {name: system.get(name, 0) for name in names}
    prod = dict.fromkeys(names, 0)
    measured = [name for name in names if name != PODS]
    live = [pod for pod in pods if not pod.has_failed]
    for pod in live:
        load = pod.load(source) or {}
        of_prod = pod.tier is Tier.PROD
        for name in measured:
            amount = load.get(name, 0)
            usage[name] += amount
            if of_prod:
                prod[name] += amount
    if PODS in usage:
        usage[PODS] = len(live)
        prod[PODS] = sum(pod.tier is Tier.PROD for pod in live)
    return usage, prod
