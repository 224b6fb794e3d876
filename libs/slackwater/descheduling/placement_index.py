"""Where pods may go, for thousands of nodes: what `placement_check.rule_refusal` finds, over arrays.

An array has a place per node. Labels and taints are compared once per distinct demand. Pods with the same labels are
one group, so that a selector is compared once per group. What only pods with rules need is made when the first is
asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slackwater.descheduling.placement import ClusterPlacement, PlacedPod, admits_labels, tolerates
from slackwater.descheduling.placement_check import counts_for_spread, is_opaque
from slackwater.model.placement_rules import AntiAffinityRule, HostPort, SpreadRule

Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]
_NOWHERE = -1


class PlacementIndex:
    """The nodes of a cluster with their pods; `place` moves a pod, or adds one that is to come."""

    def __init__(self, cluster: ClusterPlacement) -> None:
        self._nodes = list(cluster.nodes)
        self._column = {node.name: column for column, node in enumerate(self._nodes)}
        self._cluster = cluster
        self._by_demand: dict[object, tuple[Mask, Mask]] = {}
        self._domain_numbers: dict[str, Counts] = {}
        self._open = np.array([not node.unschedulable for node in self._nodes], dtype=np.bool_)
        self._later: list[tuple[PlacedPod, str]] = []
        """Placed before the pods were needed."""

    def allowed(self, pod: PlacedPod) -> Mask:
        """Returns which nodes no hard rule besides requests keeps the pod off."""
        if pod.unread_rules:
            return np.zeros(len(self._nodes), dtype=np.bool_)
        labels, taints = self._static(pod)
        mask = self._open & labels & taints
        if not self._has_rules and not (pod.anti_affinity or pod.spread or pod.host_ports):
            return mask
        pods = self._pods
        at = pods.at.get(pod.uid, _NOWHERE) if pod.uid else _NOWHERE
        own = pods.by_uid[pod.uid] if at != _NOWHERE else None
        mask &= _without(pods.opaque, at, own is not None and is_opaque(own)) == 0
        for port in pod.host_ports:
            mask[list(pods.taken(port, pod.uid))] = False
        for rule in pod.anti_affinity:
            counts = pods.excluded_by(pod.namespace, rule)
            counts = _without(counts, at, own is not None and _selects(rule, pod.namespace, own))
            mask &= ~self._in_domains(rule.topology_key, counts)
        for key, (namespace, held, counts) in pods.held.items():
            if _selects(held, namespace, pod):
                others = _without(counts, at, own is not None and key in _held_keys(own))
                mask &= ~self._in_domains(held.topology_key, others)
        for spread in pod.spread:
            counts = pods.spread_counts(pod.namespace, spread)
            is_own = own is not None and counts_for_spread(own) and own.namespace == pod.namespace
            counts = _without(counts, at, is_own and own is not None and spread.selects(own.labels))
            mask &= self._evens(spread, pod, counts)
        return mask

    def allows(self, pod: PlacedPod, node: str) -> bool:
        """Whether no hard rule besides requests keeps the pod off a node; a node that is not known allows none."""
        return node in self._column and bool(self.allowed(pod)[self._column[node]])

    def columns(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Returns the places of nodes in the arrays."""
        return np.array([self._column[name] for name in names], dtype=np.intp)

    def place(self, pod: PlacedPod, node: str) -> None:
        """Move a pod to a node, or add one that the cluster does not have."""
        if "_pods" in self.__dict__:
            self._pods.place(pod, self._column[node])
        else:
            self._later.append((pod, node))
        if pod.anti_affinity or pod.host_ports or pod.unread_rules:
            self.__dict__["_has_rules"] = True

    @cached_property
    def _has_rules(self) -> bool:
        return any(
            pod.anti_affinity or pod.host_ports or pod.unread_rules
            for pods in self._cluster.pods.values()
            for pod in pods
        )

    @cached_property
    def _pods(self) -> _PodGroups:
        groups = _PodGroups(len(self._nodes))
        for column, node in enumerate(self._nodes):
            for pod in self._cluster.pods.get(node.name, ()):
                if not pod.has_failed:
                    groups.place(pod, column)
        for pod, name in self._later:
            groups.place(pod, self._column[name])
        return groups

    def _static(self, pod: PlacedPod) -> tuple[Mask, Mask]:
        demand = (
            tuple(sorted(pod.node_selector.items())),
            tuple(map(tuple, pod.affinity)),
            tuple(pod.tolerations),
        )
        if demand not in self._by_demand:
            labels = np.array([admits_labels(node, pod) for node in self._nodes], dtype=np.bool_)
            self._by_demand[demand] = labels, np.array([tolerates(pod, node) for node in self._nodes], dtype=np.bool_)
        return self._by_demand[demand]

    def _domains(self, key: str) -> Counts:
        """The number of each node's domain; -1 without the label."""
        if key not in self._domain_numbers:
            numbers: dict[str, int] = {}
            self._domain_numbers[key] = np.array(
                [
                    numbers.setdefault(node.labels[key], len(numbers)) if key in node.labels else _NOWHERE
                    for node in self._nodes
                ],
                dtype=np.int64,
            )
        return self._domain_numbers[key]

    def _in_domains(self, key: str, counts: Counts) -> Mask:
        """Which nodes are in a domain where something counts."""
        domains = self._domains(key)
        known = domains != _NOWHERE
        sums = np.bincount(domains[known], counts[known], minlength=1)
        found: Mask = known & (sums[domains] > 0)
        return found

    def _evens(self, rule: SpreadRule, pod: PlacedPod, counts: Counts) -> Mask:
        """Which nodes keep the skew of a rule."""
        labels, taints = self._static(pod)
        keyed = np.ones(len(self._nodes), dtype=np.bool_)
        for key in {constraint.topology_key for constraint in pod.spread}:
            keyed &= self._domains(key) != _NOWHERE
        counting = keyed & (True if rule.every_node else labels)
        counting = counting & (self._open & taints if rule.tolerated_only else True)
        domains = self._domains(rule.topology_key)
        of_domain = np.bincount(domains[counting], counts[counting], minlength=int(domains.max(initial=0)) + 1)
        present = np.unique(domains[counting])
        least = of_domain[present].min() if present.size >= max(rule.min_domains, 1) else 0
        kept: Mask = keyed & (of_domain[domains] + rule.selects(pod.labels) - least <= rule.max_skew)
        return kept


class _PodGroups:
    """The live pods by labels, and what those with rules hold."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self.at: dict[str, int] = {}
        self.by_uid: dict[str, PlacedPod] = {}
        self.opaque = np.zeros(nodes, dtype=np.int64)
        self.held: dict[Hashable, tuple[str, AntiAffinityRule, Counts]] = {}
        """By key: the namespace of the holders, the rule, and how many hold it on each node."""
        self._ports: dict[tuple[int, str], list[tuple[HostPort, str, int]]] = {}
        self._groups: dict[Hashable, tuple[PlacedPod, dict[int, int]]] = {}
        """By namespace, labels and whether they count for spread: one of the pods, and how many are on each node."""
        self._selected: dict[Hashable, tuple[str, AntiAffinityRule | SpreadRule, Counts]] = {}

    def place(self, pod: PlacedPod, column: int) -> None:
        """Move a pod, or add it. It counts there as it is given: what comes may have other rules than what leaves."""
        uid = pod.uid or f"to come {len(self.at)}"
        if uid in self.at:
            self._count(uid, self.by_uid[uid], self.at[uid], -1)
        self.at[uid], self.by_uid[uid] = column, pod
        self._count(uid, pod, column, 1)

    def taken(self, port: HostPort, but: str) -> set[int]:
        """Returns the nodes where another pod has a port that conflicts."""
        entries = self._ports.get((port.port, port.protocol), ())
        return {column for taken, uid, column in entries if uid != but and taken.conflicts(port)}

    def excluded_by(self, namespace: str, rule: AntiAffinityRule) -> Counts:
        """Returns how many pods on each node a rule of a pod in a namespace excludes."""
        return self._counts((namespace, _key(rule)), namespace, rule)

    def spread_counts(self, namespace: str, rule: SpreadRule) -> Counts:
        """Returns how many pods on each node a rule counts."""
        return self._counts((namespace, "spread", _selector(rule)), namespace, rule)

    def _counts(self, key: Hashable, namespace: str, rule: AntiAffinityRule | SpreadRule) -> Counts:
        if key not in self._selected:
            counts = np.zeros(self._nodes, dtype=np.int64)
            for pod, columns in self._groups.values():
                if _selects(rule, namespace, pod):
                    counts[list(columns)] += list(columns.values())
            self._selected[key] = namespace, rule, counts
        return self._selected[key][2]

    def _count(self, uid: str, pod: PlacedPod, column: int, by: int) -> None:
        group = (pod.namespace, counts_for_spread(pod), tuple(sorted(pod.labels.items())))
        _, columns = self._groups.setdefault(group, (pod, {}))
        columns[column] = columns.get(column, 0) + by
        for namespace, selecting, counts in self._selected.values():
            if _selects(selecting, namespace, pod):
                counts[column] += by
        self.opaque[column] += by if is_opaque(pod) else 0
        for key, rule in {(pod.namespace, _key(rule)): rule for rule in pod.anti_affinity}.items():
            if key not in self.held:
                self.held[key] = pod.namespace, rule, np.zeros(self._nodes, dtype=np.int64)
            self.held[key][2][column] += by
        for port in pod.host_ports:
            taken = self._ports.setdefault((port.port, port.protocol), [])
            taken.append((port, uid, column)) if by > 0 else taken.remove((port, uid, column))


def _selects(rule: AntiAffinityRule | SpreadRule, namespace: str, pod: PlacedPod) -> bool:
    """Whether a rule of a pod in a namespace counts another pod."""
    if isinstance(rule, SpreadRule):
        return pod.namespace == namespace and counts_for_spread(pod) and rule.selects(pod.labels)
    return rule.concerns(namespace, pod.namespace) and rule.selects(pod.labels)


def _held_keys(pod: PlacedPod) -> set[Hashable]:
    return {(pod.namespace, _key(rule)) for rule in pod.anti_affinity}


def _key(rule: AntiAffinityRule) -> Hashable:
    return rule.topology_key, _selector(rule), tuple(sorted(rule.namespaces)), rule.all_namespaces


def _selector(rule: AntiAffinityRule | SpreadRule) -> Hashable:
    return tuple(sorted(rule.labels.items())), tuple(rule.expressions)


def _without(counts: Counts, column: int, counted: bool) -> Counts:
    if not counted:
        return counts
    others = counts.copy()
    others[column] -= 1
    return others
