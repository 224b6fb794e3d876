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
)
from slackwater.descheduling.placement_check import counts_for_spread, spread_nodes
from slackwater.descheduling.plugin_args import ArgsReader
from slackwater.descheduling.plugins import MoveJudge
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
        proposals: list[EvictionProposal] = []
        for pods in self._groups(cluster).values():
            proposals += self._spread(pods, cluster.nodes, gate)
        return proposals

    def move_judge(self, cluster: ClusterPlacement, now_s: float) -> MoveJudge:
        """slackwater.descheduling.plugins.UndoPoint."""
        even = {}
        for group, pods in self._groups(cluster).items():
            feasible = sum(admits(node, pods[0]) for node in cluster.nodes)
            if feasible > 1:
                even[group] = ceil(len(pods) / feasible), Counter(pod.node for pod in pods)
        return DuplicatesJudge(even)

    def _groups(self, cluster: ClusterPlacement) -> dict[Group, list[PlacedPod]]:
        """Those of several pods."""
        groups: dict[Group, list[PlacedPod]] = {}
        for pod in _pods(cluster):
            if pod.workload and not self._owners & set(pod.owner_kinds):
                groups.setdefault(duplicates_group(pod), []).append(pod)
        return {group: pods for group, pods in groups.items() if len(pods) > 1}

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
            gate.record(pod, target)
            counts[pod.node] -= 1
            counts[target] += 1
            yield EvictionProposal(pod, target, "RemoveDuplicates", reason)


class DuplicatesJudge:
    """No other plugin may bring a node more pods of a group than are even."""

    def __init__(self, even: Mapping[Group, tuple[int, Counter[str]]]) -> None:
        self._even = even

    def undoes(self, pod: PlacedPod, target: str) -> bool:
        """slackwater.descheduling.plugins.MoveJudge."""
        most, counts = self._even.get(duplicates_group(pod), (0, None))
        return counts is not None and counts[target] >= most

    def moved(self, pod: PlacedPod, target: str) -> None:
        """slackwater.descheduling.plugins.MoveJudge."""
        _, counts = self._even.get(duplicates_group(pod), (0, None))
        if counts is not None:
            counts[pod.node] -= 1
            counts[target] += 1


def duplicates_group(pod: PlacedPod) -> Group:
    """Returns what the pods of a group share."""
    return pod.namespace, pod.workload, frozenset(pod.images)


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
            gate.record(pod, target)
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
        groups, proposals = _spread_groups(cluster), list[EvictionProposal]()
        for group in groups:
            proposals += _evened(group, groups, gate)
        return proposals

    def move_judge(self, cluster: ClusterPlacement, now_s: float) -> MoveJudge:
        """slackwater.descheduling.plugins.UndoPoint."""
        return SpreadJudge(_spread_groups(cluster))


class SpreadGroup:
    """The pods of a namespace with the same spread rule, the domain of each node, and the pods that count there."""

    def __init__(
        self,
        rule: SpreadRule,
        pods: Sequence[PlacedPod],
        nodes: Sequence[PlacementNode],
        of_namespace: Sequence[PlacedPod],
    ) -> None:
        self.rule = rule
        self.pods = pods
        self.domains = {node.name: node.labels[rule.topology_key] for node in spread_nodes(rule, pods[0], nodes)}
        self.counts = Counter(dict.fromkeys(self.domains.values(), 0))
        for pod in of_namespace:
            if self.concerns(pod) and pod.node in self.domains:
                self.counts[self.domains[pod.node]] += 1

    def concerns(self, pod: PlacedPod) -> bool:
        """Whether the rule counts a pod."""
        of_namespace = pod.namespace == self.pods[0].namespace
        return of_namespace and counts_for_spread(pod) and self.rule.selects(pod.labels)

    def excess(self, counts: Mapping[str, int]) -> int:
        """Returns how many pods are above the skew, over all domains."""
        least = min(counts.values(), default=0)
        return sum(max(count - least - self.rule.max_skew, 0) for count in counts.values())

    def after(self, pod: PlacedPod, target: str) -> Counter[str]:
        """Returns the counts after a move."""
        counts = Counter(self.counts)
        if self.concerns(pod):
            for name, change in ((pod.node, -1), (target, 1)):
                if name in self.domains:
                    counts[self.domains[name]] += change
        return counts


class SpreadJudge:
    """No other plugin may bring more pods above the skew of a rule."""

    def __init__(self, groups: Sequence[SpreadGroup]) -> None:
        self._groups = groups

    def undoes(self, pod: PlacedPod, target: str) -> bool:
        """slackwater.descheduling.plugins.MoveJudge."""
        return any(
            group.excess(group.after(pod, target)) > group.excess(group.counts)
            for group in self._groups
            if group.concerns(pod)
        )

    def moved(self, pod: PlacedPod, target: str) -> None:
        """slackwater.descheduling.plugins.MoveJudge."""
        for group in self._groups:
            group.counts = group.after(pod, target)


def _spread_groups(cluster: ClusterPlacement) -> list[SpreadGroup]:
    groups: dict[Group, tuple[SpreadRule, list[PlacedPod]]] = {}
    by_namespace: dict[str, list[PlacedPod]] = {}
    for pod in _pods(cluster):
        by_namespace.setdefault(pod.namespace, []).append(pod)
        for rule in pod.spread:
            selector = (tuple(sorted(rule.labels.items())), tuple(rule.expressions))
            key = (pod.namespace, rule.topology_key, rule.max_skew, selector)
            groups.setdefault(key, (rule, []))[1].append(pod)
    return [SpreadGroup(rule, pods, cluster.nodes, by_namespace[pods[0].namespace]) for rule, pods in groups.values()]


def _evened(group: SpreadGroup, groups: Sequence[SpreadGroup], gate: EvictionGate) -> Iterator[EvictionProposal]:
    rule, others = group.rule, SpreadJudge([each for each in groups if each is not group])
    for pod in _in_order([pod for pod in group.pods if pod.node in group.domains and group.concerns(pod)]):
        here, least = group.domains[pod.node], min(group.counts.values())
        if group.counts[here] - least <= rule.max_skew or not gate.allows(pod):
            continue
        emptiest = [name for name, domain in group.domains.items() if group.counts[domain] == least]
        target = gate.place(pod, [name for name in emptiest if not others.undoes(pod, name)])
        if target is None:
            continue
        counted = group.counts[here]
        reason = f"{counted} pods in {rule.topology_key} {here}, {least} in the emptiest; allowed: {rule.max_skew}"
        gate.record(pod, target)
        if target:
            SpreadJudge(groups).moved(pod, target)
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
            each.uid != pod.uid and rule.concerns(pod.namespace, each.namespace) and rule.selects(each.labels)
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
