"""Plugins that compare pods with each other: duplicates, anti-affinity, topology spread.

Source: the plugins of these names of the Kubernetes descheduler. A pod is proposed only for a node where the rule then
holds better, so that rounds over a constant cluster end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from slackwater.descheduling.placement import (
    ClusterPlacement,
    EvictionGate,
    EvictionProposal,
    PlacedPod,
    PlacementNode,
    admits,
    admits_labels,
)
from slackwater.descheduling.plugin_args import ArgsReader
from slackwater.descheduling.pod_order import eviction_rank
from slackwater.descheduling.profile import PluginArgs
from slackwater.model.placement_rules import AntiAffinityRule, SpreadRule

Group = tuple[object, ...]


class Duplicates:
    """RemoveDuplicates: at most ceil(pods / nodes that admit them) of a workload and its images on a node."""

    def __init__(self, owners: frozenset[str]) -> None:
        self._owners = owners

    def balance(self, cluster: ClusterPlacement, now_s: float, gate: EvictionGate) -> Sequence[EvictionProposal]:
        """Returns proposals of what is more than that, for nodes that have less."""
        groups: dict[Group, list[PlacedPod]] = {}
        for pod in _pods(cluster):
            if pod.workload and not self._owners & set(pod.owner_kinds):
                groups.setdefault((pod.namespace, pod.workload, frozenset(pod.images)), []).append(pod)
        proposals: list[EvictionProposal] = []
        for pods in groups.values():
            proposals += self._spread(pods, cluster.nodes, gate) if len(pods) > 1 else ()
        return proposals

    def _spread(
        self, pods: Sequence[PlacedPod], nodes: Sequence[PlacementNode], gate: EvictionGate
    ) -> Iterator[EvictionProposal]:
        feasible = [node.name for node in nodes if admits(node, pods[0])]
        if len(feasible) < 2:
            return
        most, counts = ceil(len(pods) / len(feasible)), Counter(pod.node for pod in pods)
        for pod in _in_order(pods):
            if counts[pod.node] <= most or not gate.allows(pod):
                continue
            target = gate.place(pod, [name for name in feasible if counts[name] < most])
            if target is None:
                continue
            reason = f"{counts[pod.node]} pods of {pod.workload} on the node, {most} would be even"
            gate.record(pod)
            counts[pod.node] -= 1
            counts[target] += 1
            yield EvictionProposal(pod, target, "RemoveDuplicates", reason)


class AntiAffinity:
    """RemovePodsViolatingInterPodAntiAffinity."""

    def deschedule(self, cluster: ClusterPlacement, now_s: float, gate: EvictionGate) -> Sequence[EvictionProposal]:
        """Returns proposals of pods beside one that they must not be with, for domains without such pods."""
        nodes, proposals = cluster.nodes, []
        placed = {name: [pod for pod in pods if not pod.has_failed] for name, pods in cluster.pods.items()}
        for pod in _in_order([pod for pod in _pods(cluster) if pod.anti_affinity]):
            crowded = {name for rule in pod.anti_affinity for name in _crowded(nodes, placed, pod, rule)}
            if pod.node not in crowded or not gate.allows(pod):
                continue
            target = gate.place(pod, [node.name for node in nodes if node.name not in crowded])
            if target is None:
                continue
            gate.record(pod)
            placed[pod.node] = [each for each in placed[pod.node] if each.uid != pod.uid]
            if target:
                placed[target] = [*placed.get(target, ()), pod]
            reason = "a pod that its anti-affinity excludes is in the same domain"
            proposals.append(EvictionProposal(pod, target, "RemovePodsViolatingInterPodAntiAffinity", reason))
        return proposals


class TopologySpread:
    """RemovePodsViolatingTopologySpreadConstraint."""

    def balance(self, cluster: ClusterPlacement, now_s: float, gate: EvictionGate) -> Sequence[EvictionProposal]:
        """Returns proposals from the fullest domain to the emptiest, until they differ by the skew of the rule."""
        groups: dict[Group, tuple[SpreadRule, list[PlacedPod]]] = {}
        for pod in _pods(cluster):
            for rule in pod.spread:
                selector = (tuple(sorted(rule.labels.items())), tuple(rule.expressions))
                key = (pod.namespace, rule.topology_key, rule.max_skew, selector)
                groups.setdefault(key, (rule, []))[1].append(pod)
        proposals: list[EvictionProposal] = []
        for rule, pods in groups.values():
            proposals += _evened(pods, rule, cluster, gate)
        return proposals


def _evened(
    pods: Sequence[PlacedPod], rule: SpreadRule, cluster: ClusterPlacement, gate: EvictionGate
) -> Iterator[EvictionProposal]:
    domains = {  # as the scheduler has it by default: of the nodes that the labels allow
        node.name: node.labels[rule.topology_key]
        for node in cluster.nodes
        if rule.topology_key in node.labels and admits_labels(node, pods[0])
    }
    if not domains:
        return
    counts = dict.fromkeys(domains.values(), 0)
    for pod in _pods(cluster):
        if pod.node in domains and pod.namespace == pods[0].namespace and rule.selects(pod.labels):
            counts[domains[pod.node]] += 1
    for pod in _in_order([pod for pod in pods if pod.node in domains and rule.selects(pod.labels)]):
        here, least = domains[pod.node], min(counts.values())
        if counts[here] - least <= max(rule.max_skew, 1) or not gate.allows(pod):
            continue
        target = gate.place(pod, [name for name, domain in domains.items() if counts[domain] == least])
        if target is None:
            continue
        reason = f"{counts[here]} pods in {rule.topology_key} {here}, {least} in the emptiest; allowed: {rule.max_skew}"
        gate.record(pod)
        counts[here] -= 1
        if target:
            counts[domains[target]] += 1
        yield EvictionProposal(pod, target, "RemovePodsViolatingTopologySpreadConstraint", reason)


def _crowded(
    nodes: Sequence[PlacementNode],
    placed: Mapping[str, Sequence[PlacedPod]],
    pod: PlacedPod,
    rule: AntiAffinityRule,
) -> set[str]:
    """Nodes in domains where another pod is that the rule excludes."""
    taken = {
        node.labels.get(rule.topology_key)
        for node in nodes
        if any(
            each.uid != pod.uid and each.namespace == pod.namespace and rule.selects(each.labels)
            for each in placed.get(node.name, ())
        )
    }
    domains = {node.name: node.labels.get(rule.topology_key) for node in nodes}
    return {name for name, domain in domains.items() if domain is not None and domain in taken}


def _pods(cluster: ClusterPlacement) -> Iterator[PlacedPod]:
    """Those that have not failed."""
    for node in cluster.nodes:
        yield from (pod for pod in cluster.pods.get(node.name, ()) if not pod.has_failed)


def _in_order(pods: Sequence[PlacedPod]) -> list[PlacedPod]:
    """Lowest tier and priority first, of equals the newer one."""
    return sorted(pods, key=lambda pod: (eviction_rank(pod), -pod.created_s, pod.uid))


def remove_duplicates(args: PluginArgs) -> Duplicates:
    """RemoveDuplicates: `excludeOwnerKinds`."""
    return Duplicates(ArgsReader("RemoveDuplicates", args, ("excludeOwnerKinds",)).names("excludeOwnerKinds"))


def anti_affinity(args: PluginArgs) -> AntiAffinity:
    """RemovePodsViolatingInterPodAntiAffinity, without arguments."""
    ArgsReader("RemovePodsViolatingInterPodAntiAffinity", args, ())
    return AntiAffinity()


def topology_spread(args: PluginArgs) -> TopologySpread:
    """RemovePodsViolatingTopologySpreadConstraint, without arguments."""
    ArgsReader("RemovePodsViolatingTopologySpreadConstraint", args, ())
    return TopologySpread()
