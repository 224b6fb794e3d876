"""Which hard rule keeps a pod off a node: the readable form, node by node. `placement_index` finds the same, faster.

The rules are those of Kubernetes' scheduler, in both directions: what the pod asks of the node and of the pods there,
and what those ask of it. The pod itself counts nowhere, because it leaves where it is. A rule that was not read keeps
the pod where it is; an opaque pod, of which not even the labels are known, keeps others off its node. Room is judged by
`placement.requests_fit`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

from slackwater.descheduling.placement import (
    ClusterPlacement,
    PlacedPod,
    PlacementNode,
    admits_labels,
    free_for_requests,
    requests_fit,
    tolerates,
)
from slackwater.model.placement_rules import OPAQUE, AntiAffinityRule, SpreadRule


class PlacementRefusal(StrEnum):
    """What keeps a pod off a node. The first that applies is named."""

    UNREAD_RULES = "unread_rules"
    CORDONED = "cordoned"
    NODE_LABELS = "node_labels"
    TAINTS = "taints"
    OPAQUE_POD = "opaque_pod"
    """A pod there of which neither labels nor rules are known."""
    HOST_PORTS = "host_ports"
    ANTI_AFFINITY = "anti_affinity"
    ANTI_AFFINITY_THERE = "anti_affinity_there"
    """A pod that is there excludes it."""
    TOPOLOGY_SPREAD = "topology_spread"
    REQUESTS = "requests"


def placement_refusal(pod: PlacedPod, node: PlacementNode, cluster: ClusterPlacement) -> PlacementRefusal | None:
    """Returns the first hard rule that keeps a pod off a node, its requests included; None where it may go there."""
    refusal = rule_refusal(pod, node, cluster)
    if refusal is not None:
        return refusal
    others = [each for each in cluster.pods.get(node.name, ()) if each.uid != pod.uid]
    return None if requests_fit(free_for_requests(node, others), pod) else PlacementRefusal.REQUESTS


def rule_refusal(pod: PlacedPod, node: PlacementNode, cluster: ClusterPlacement) -> PlacementRefusal | None:
    """Returns the first hard rule besides requests that keeps a pod off a node."""
    there = [other for other in cluster.pods.get(node.name, ()) if counts_beside(other, pod)]
    if pod.unread_rules:
        return PlacementRefusal.UNREAD_RULES
    if node.unschedulable:
        return PlacementRefusal.CORDONED
    if not admits_labels(node, pod):
        return PlacementRefusal.NODE_LABELS
    if not tolerates(pod, node):
        return PlacementRefusal.TAINTS
    if any(is_opaque(other) for other in there):
        return PlacementRefusal.OPAQUE_POD
    if any(mine.conflicts(port) for other in there for port in other.host_ports for mine in pod.host_ports):
        return PlacementRefusal.HOST_PORTS
    if any(_excludes(rule, pod, other) for rule in pod.anti_affinity for other in _in_domain(rule, node, pod, cluster)):
        return PlacementRefusal.ANTI_AFFINITY
    if any(_is_excluded(pod, other, node, at) for at in cluster.nodes for other in cluster.pods.get(at.name, ())):
        return PlacementRefusal.ANTI_AFFINITY_THERE
    if any(_spread_is_broken(rule, pod, node, cluster) for rule in pod.spread):
        return PlacementRefusal.TOPOLOGY_SPREAD
    return None


def is_opaque(pod: PlacedPod) -> bool:
    """Whether neither the labels nor the rules of a pod are known."""
    return not OPAQUE.isdisjoint(pod.unread_rules)


def counts_beside(other: PlacedPod, pod: PlacedPod) -> bool:
    """Whether a pod counts where another one is placed: it is not that one, and has not ended."""
    return not other.has_failed and (not pod.uid or other.uid != pod.uid)


def counts_for_spread(pod: PlacedPod) -> bool:
    """Whether a pod counts in its domain: one that is terminating does not, one that arrives does."""
    return not pod.terminating or pod.arriving


def spread_nodes(rule: SpreadRule, pod: PlacedPod, nodes: Sequence[PlacementNode]) -> list[PlacementNode]:
    """Returns the nodes that count for a rule of a pod: those with the labels of all its rules, which its node selector
    and affinity allow and, if the rule says so, whose taints it tolerates."""
    keys = {constraint.topology_key for constraint in pod.spread} | {rule.topology_key}
    return [
        node
        for node in nodes
        if keys <= node.labels.keys()
        and (rule.every_node or admits_labels(node, pod))
        and (not rule.tolerated_only or (not node.unschedulable and tolerates(pod, node)))
    ]


def domain_counts(rule: SpreadRule, pod: PlacedPod, cluster: ClusterPlacement) -> Counter[str]:
    """Returns by domain how many other pods a rule of a pod counts there."""
    counts = Counter[str]()
    for node in spread_nodes(rule, pod, cluster.nodes):
        counts[node.labels[rule.topology_key]] += sum(
            counts_beside(other, pod)
            and counts_for_spread(other)
            and other.namespace == pod.namespace
            and rule.selects(other.labels)
            for other in cluster.pods.get(node.name, ())
        )
    return counts


def least_count(rule: SpreadRule, counts: Sequence[int]) -> int:
    """Returns the count of the emptiest domain, which is 0 with fewer domains than the rule wants."""
    return min(counts) if len(counts) >= max(rule.min_domains, 1) else 0


def _spread_is_broken(rule: SpreadRule, pod: PlacedPod, node: PlacementNode, cluster: ClusterPlacement) -> bool:
    if any(constraint.topology_key not in node.labels for constraint in pod.spread):
        return True
    counts = domain_counts(rule, pod, cluster)
    after = counts[node.labels[rule.topology_key]] + rule.selects(pod.labels)
    return after - least_count(rule, list(counts.values())) > rule.max_skew


def _in_domain(
    rule: AntiAffinityRule, node: PlacementNode, pod: PlacedPod, cluster: ClusterPlacement
) -> Iterator[PlacedPod]:
    domain = node.labels.get(rule.topology_key)
    for at in cluster.nodes if domain is not None else ():
        if at.labels.get(rule.topology_key) == domain:
            yield from (other for other in cluster.pods.get(at.name, ()) if counts_beside(other, pod))


def _excludes(rule: AntiAffinityRule, holder: PlacedPod, other: PlacedPod) -> bool:
    return rule.concerns(holder.namespace, other.namespace) and rule.selects(other.labels)


def _is_excluded(pod: PlacedPod, other: PlacedPod, node: PlacementNode, at: PlacementNode) -> bool:
    return counts_beside(other, pod) and any(
        _excludes(rule, other, pod)
        and rule.topology_key in node.labels
        and node.labels[rule.topology_key] == at.labels.get(rule.topology_key)
        for rule in other.anti_affinity
    )
