"""Plugins that judge each pod for itself: age, restarts, failure, taints, node affinity.

Source: the plugins of these names of the Kubernetes descheduler. Unlike there, a pod is proposed only if another node
holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from slackwater.descheduling.placement import (
    ClusterPlacement,
    EvictionGate,
    EvictionProposal,
    PlacedPod,
    PlacementNode,
    admits_labels,
)
from slackwater.descheduling.plugin_args import ArgsReader
from slackwater.descheduling.plugins import MoveJudge
from slackwater.descheduling.profile import PluginArgs
from slackwater.model.placement_rules import NodeTaint

UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
"""The taint of a node that `kubectl cordon` has closed: nothing new comes, and what is there stays."""
Judgement = Callable[[PlacementNode, PlacedPod, float], str | None]
"""Why the pod should leave the node at a time; None: it may stay."""


class SinglePods:
    """The Deschedule point: proposes the pods that a judgement finds, the oldest first."""

    def __init__(self, name: str, judge: Judgement, *, judges_failed: bool = False, by_node: bool = False) -> None:
        """`judges_failed`: pods that have ended with a failure too. `by_node`: the judgement is one of the node, so
        that no pod is moved to where it would be found again."""
        self._name = name
        self._judge = judge
        self._judges_failed = judges_failed
        self._by_node = by_node

    def deschedule(self, cluster: ClusterPlacement, now_s: float, gate: EvictionGate) -> Sequence[EvictionProposal]:
        """Returns a proposal for each pod that should leave and that another node holds, if it needs one."""
        found = sorted(self._found(cluster, now_s), key=lambda each: (each[0].created_s, each[0].uid))
        proposals = []
        for pod, reason in found:
            if not gate.allows(pod) or (target := gate.place(pod, self._better(cluster, pod, now_s))) is None:
                continue
            gate.record(pod, target)
            proposals.append(EvictionProposal(pod, target, self._name, reason))
        return proposals

    def _better(self, cluster: ClusterPlacement, pod: PlacedPod, now_s: float) -> list[str] | None:
        if not self._by_node:
            return None
        return [node.name for node in cluster.nodes if self._judge(node, pod, now_s) is None]

    def move_judge(self, cluster: ClusterPlacement, now_s: float) -> MoveJudge:
        """slackwater.descheduling.plugins.UndoPoint."""
        nodes = {node.name: node for node in cluster.nodes} if self._by_node else {}
        return _NodeJudge(self._judge, nodes, now_s)

    def _found(self, cluster: ClusterPlacement, now_s: float) -> Iterator[tuple[PlacedPod, str]]:
        for node in cluster.nodes:
            for pod in cluster.pods.get(node.name, ()):
                if pod.has_failed and not self._judges_failed:
                    continue
                reason = self._judge(node, pod, now_s)
                if reason is not None:
                    yield pod, reason


class _NodeJudge:
    """A node that the plugin would find a pod on is no target for it."""

    def __init__(self, judge: Judgement, nodes: Mapping[str, PlacementNode], now_s: float) -> None:
        self._judge = judge
        self._nodes = nodes
        self._now_s = now_s

    def undoes(self, pod: PlacedPod, target: str) -> bool:
        """slackwater.descheduling.plugins.MoveJudge."""
        node = self._nodes.get(target)
        return node is not None and self._judge(node, pod, self._now_s) is not None

    def moved(self, pod: PlacedPod, target: str) -> None:
        """slackwater.descheduling.plugins.MoveJudge."""


def pod_life_time(args: PluginArgs) -> SinglePods:
    """PodLifeTime: `maxPodLifeTimeSeconds`, and `states` (phases; empty: all)."""
    read = ArgsReader("PodLifeTime", args, ("maxPodLifeTimeSeconds", "states"))
    most_s, states = read.number("maxPodLifeTimeSeconds", least=1), read.names("states")

    def judge(node: PlacementNode, pod: PlacedPod, now_s: float) -> str | None:
        if states and pod.phase not in states:
            return None
        age_s = now_s - pod.created_s
        return f"runs for {age_s:.0f} s, longer than {most_s:.0f} s" if pod.created_s and age_s > most_s else None

    return SinglePods("PodLifeTime", judge, judges_failed=True)


def too_many_restarts(args: PluginArgs) -> SinglePods:
    """RemovePodsHavingTooManyRestarts: `podRestartThreshold`, 100 by default."""
    name = "RemovePodsHavingTooManyRestarts"
    threshold = ArgsReader(name, args, ("podRestartThreshold",)).number("podRestartThreshold", 100, least=1)

    def judge(node: PlacementNode, pod: PlacedPod, now_s: float) -> str | None:
        why = f" ({pod.phase_reason})" if pod.phase_reason else ""
        return f"{pod.restarts} restarts, at least {threshold:.0f}{why}" if pod.restarts >= threshold else None

    return SinglePods(name, judge)


def failed_pods(args: PluginArgs) -> SinglePods:
    """RemoveFailedPods: `reasons` (empty: all), `minPodLifetimeSeconds`, `excludeOwnerKinds`."""
    read = ArgsReader("RemoveFailedPods", args, ("reasons", "minPodLifetimeSeconds", "excludeOwnerKinds"))
    reasons, owners = read.names("reasons"), read.names("excludeOwnerKinds")
    least_s = read.number("minPodLifetimeSeconds", 0)

    def judge(node: PlacementNode, pod: PlacedPod, now_s: float) -> str | None:
        if pod.phase != "Failed" or owners & set(pod.owner_kinds) or now_s - pod.created_s < least_s:
            return None
        if reasons and pod.phase_reason not in reasons:
            return None
        return f"failed: {pod.phase_reason or 'no reason is known'}"

    return SinglePods("RemoveFailedPods", judge, judges_failed=True)


def node_taints(args: PluginArgs) -> SinglePods:
    """RemovePodsViolatingNodeTaints: `includePreferNoSchedule`, `excludedTaints` (keys)."""
    name = "RemovePodsViolatingNodeTaints"
    read = ArgsReader(name, args, ("includePreferNoSchedule", "excludedTaints"))
    advisory, excluded = read.flag("includePreferNoSchedule"), read.names("excludedTaints")

    def counts(taint: NodeTaint) -> bool:
        return taint.key not in excluded | {UNSCHEDULABLE} and (
            taint.effect == "NoSchedule" or (advisory and taint.effect == "PreferNoSchedule")
        )

    def judge(node: PlacementNode, pod: PlacedPod, now_s: float) -> str | None:
        for taint in node.taints:
            if counts(taint) and not any(toleration.matches(taint) for toleration in pod.tolerations):
                return f"does not tolerate {taint.key}={taint.value}:{taint.effect}"
        return None

    return SinglePods(name, judge, by_node=True)


def node_affinity(args: PluginArgs) -> SinglePods:
    """RemovePodsViolatingNodeAffinity: the node's labels changed after the pod came."""
    name = "RemovePodsViolatingNodeAffinity"
    ArgsReader(name, args, ())

    def judge(node: PlacementNode, pod: PlacedPod, now_s: float) -> str | None:
        return None if admits_labels(node, pod) else _unmatched(node, pod)

    return SinglePods(name, judge, by_node=True)


def _unmatched(node: PlacementNode, pod: PlacedPod) -> str:
    """Which condition the labels of the node do not fulfil; of several terms it is that of none."""
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            return f"the node has {_label(node, key)}, its node selector wants {key}={value}"
    wanted = "; ".join(", ".join(map(str, term)) for term in pod.affinity)
    labels = ", ".join(sorted({_label(node, condition.key) for term in pod.affinity for condition in term}))
    return f"the node has {labels}, its node affinity wants {wanted}"


def _label(node: PlacementNode, key: str) -> str:
    return f"{key}={node.labels[key]}" if key in node.labels else f"no label {key}"
