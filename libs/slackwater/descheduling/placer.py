"""Finds a place for pods that leave a node for another reason than its load, and reserves it.

A target holds what the pod is expected to use and stays a margin below its allocatable amounts; requests and all hard
rules allow the pod. The coolest one is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf

from slackwater.descheduling.node_classes import NodeClass, NodeLoad
from slackwater.descheduling.placement import (
    EXPECTED,
    PODS,
    Amounts,
    ClusterPlacement,
    EvictionProposal,
    LoadBasis,
    LoadSource,
    PlacedPod,
    PlacementNode,
)
from slackwater.descheduling.placement_index import PlacementIndex
from slackwater.descheduling.target_search import TargetSearch
from slackwater.model.records import record

JUDGED = ("cpu", "memory")


class Placer:
    """The places of one cluster, with what is reserved on them."""

    def __init__(self, cluster: ClusterPlacement, margin: float) -> None:
        """`margin`: the part of the allocatable amounts that stays free, 0..1."""
        loads = [_node_load(node, cluster.pods.get(node.name, ()), margin) for node in cluster.nodes]
        classes = {node.name: NodeClass.LOW for node in cluster.nodes}
        self._search = TargetSearch(loads, classes, {}, node_fit=True, margin=0.0, rules=PlacementIndex(cluster))

    def place(
        self, pod: PlacedPod, among: Collection[str] | None = None, accepts: Callable[[str], bool] | None = None
    ) -> str | None:
        """Returns the node whose room is now reserved for the pod; None where no other one holds it. `among`: names of
        the nodes that would be better; None: any. `accepts` is asked for the one that would be chosen."""
        load = expected_load(pod)
        return self._search.reserve(pod, load, inf, prod=False, without=pod.node, among=among, accepts=accepts)


def expected_load(pod: PlacedPod) -> Amounts:
    """Returns what the pod is expected to use: its predicted peak, what it uses, or what it requests, in this order."""
    if pod.peak is not None:
        return pod.peak
    return pod.requests if pod.usage is None else pod.usage


def node_shares(node: PlacementNode, pods: Sequence[PlacedPod], basis: LoadBasis = EXPECTED) -> float:
    """Returns the load of a node as a share of what is allocatable: the weighted mean of the resources of `basis`."""
    weights = basis.weights or dict.fromkeys(JUDGED, 1.0)
    names = [name for name, weight in weights.items() if weight > 0 and node.allocatable.get(name, 0) > 0]
    total = sum(weights[name] for name in names)
    load = _load(node, pods, basis.source)
    return sum(weights[name] / total * load.get(name, 0) / node.allocatable[name] for name in names)


@record(frozen=True, slots=True)
class StepLoads:
    """Loads around one move, as shares of what is allocatable; all 0 without a target."""

    node_before: float = 0.0
    node_after: float = 0.0
    target_before: float = 0.0
    target_after: float = 0.0

    @property
    def gain(self) -> float:
        """The load of the node before less that of the target after, within -1..1."""
        return min(max(self.node_before - self.target_after, -1.0), 1.0)


def step_loads(
    cluster: ClusterPlacement, proposals: Sequence[EvictionProposal], basis: LoadBasis = EXPECTED
) -> list[StepLoads]:
    """Returns the loads around each proposal, after those before it."""
    nodes = {node.name: node for node in cluster.nodes}
    pods = {
        name: list(cluster.pods.get(name, ()))
        for proposal in proposals
        for name in (proposal.pod.node, proposal.target)
    }
    steps = []
    for proposal in proposals:
        source, target = nodes.get(proposal.pod.node), nodes.get(proposal.target)
        if source is None or target is None:
            steps.append(StepLoads())
            continue
        before = node_shares(source, pods[source.name], basis), node_shares(target, pods[target.name], basis)
        pods[source.name] = [pod for pod in pods[source.name] if pod.uid != proposal.pod.uid]
        pods[target.name].append(proposal.pod)
        after = node_shares(source, pods[source.name], basis), node_shares(target, pods[target.name], basis)
        steps.append(StepLoads(before[0], after[0], before[1], after[1]))
    return steps


def _node_load(node: PlacementNode, pods: Sequence[PlacedPod], margin: float) -> NodeLoad:
    load = _load(node, pods, None)
    high = {name: int(node.allocatable[name] * (1 - margin)) for name in JUDGED if name in node.allocatable}
    return NodeLoad(node, pods, load, {}, high, high, high, high)


def _load(node: PlacementNode, pods: Sequence[PlacedPod], source: LoadSource | None) -> dict[str, int]:
    """Returns CPU, memory and pods. `source` None: what they are expected to use."""
    system = node.system_peak or node.system_usage if source is None else node.system_load(source)
    load = {**{name: system.get(name, 0) for name in JUDGED}, PODS: 0}
    for pod in pods:
        amounts = expected_load(pod) if source is None else pod.load(source) or {}
        for name in JUDGED:
            load[name] += amounts.get(name, 0)
        load[PODS] += not pod.has_failed
    return load
