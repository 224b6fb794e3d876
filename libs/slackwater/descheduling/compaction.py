"""HighNodeUtilization: empties nodes below a threshold, so that an autoscaler can remove them.

A pod goes only to a node that is fuller than the one it leaves and not empty. Each such move makes a fuller node
fuller, so that rounds over a constant cluster end. Source: the Kubernetes descheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slackwater.descheduling.placement import ClusterPlacement, EvictionGate, EvictionProposal, PlacedPod, PlacementNode
from slackwater.descheduling.placer import expected_load, node_shares
from slackwater.descheduling.plugin_args import ArgsReader
from slackwater.descheduling.plugins import MoveJudge
from slackwater.descheduling.pod_order import eviction_rank
from slackwater.descheduling.profile import PluginArgs

NAME = "HighNodeUtilization"
THRESHOLDS = ("cpu", "memory")


class HighNodeUtilization:
    """The Balance point. `thresholds`, in percent: a node below all of them is to be emptied."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        self._thresholds = thresholds

    def balance(self, cluster: ClusterPlacement, now_s: float, gate: EvictionGate) -> Sequence[EvictionProposal]:
        """Returns proposals from the emptiest node on."""
        placed = {
            node.name: [pod for pod in cluster.pods.get(node.name, ()) if not pod.has_failed] for node in cluster.nodes
        }
        shares = {node.name: node_shares(node, placed[node.name]) for node in cluster.nodes}
        sources = [node.name for node in cluster.nodes if self._is_low(node, placed[node.name])]
        proposals: list[EvictionProposal] = []
        filled: set[str] = set()
        for source in sorted(sources, key=lambda name: (shares[name], name)):
            if source in filled:
                continue
            fuller = [name for name, share in shares.items() if share > shares[source] and placed[name]]
            for pod in sorted(placed[source], key=lambda pod: (eviction_rank(pod), pod.uid)):
                if not gate.allows(pod) or (target := gate.place(pod, fuller)) is None:
                    continue
                gate.record(pod, target)
                filled.add(target)
                reason = f"the node is {shares[source]:.0%} full and can be emptied"
                proposals.append(EvictionProposal(pod, target, NAME, reason))
        return proposals

    def move_judge(self, cluster: ClusterPlacement, now_s: float) -> MoveJudge:
        """slackwater.descheduling.plugins.UndoPoint."""
        return _LowNodeJudge(cluster, self._is_low)

    def _is_low(self, node: PlacementNode, pods: Sequence[PlacedPod]) -> bool:
        return bool(pods) and all(
            100 * sum(expected_load(pod).get(resource, 0) for pod in pods) < percent * node.allocatable.get(resource, 0)
            for resource, percent in self._thresholds.items()
        )


class _LowNodeJudge:
    """No other plugin may bring a pod to a node that stays below the thresholds, or leave a node below them."""

    def __init__(self, cluster: ClusterPlacement, is_low: Callable[[PlacementNode, Sequence[PlacedPod]], bool]) -> None:
        self._nodes = {node.name: node for node in cluster.nodes}
        self._placed = {
            name: {pod.uid: pod for pod in pods if not pod.has_failed} for name, pods in cluster.pods.items()
        }
        self._is_low = is_low

    def undoes(self, pod: PlacedPod, target: str) -> bool:
        """slackwater.descheduling.plugins.MoveJudge."""
        there, here = list(self._placed.get(target, {}).values()), self._placed.get(pod.node, {})
        left = [other for other in here.values() if other.uid != pod.uid]
        if self._low(target, [*there, pod]):
            return True
        return self._low(pod.node, left) and not self._low(pod.node, list(here.values()))

    def moved(self, pod: PlacedPod, target: str) -> None:
        """slackwater.descheduling.plugins.MoveJudge."""
        self._placed.get(pod.node, {}).pop(pod.uid, None)
        self._placed.setdefault(target, {})[pod.uid] = pod

    def _low(self, node: str, pods: Sequence[PlacedPod]) -> bool:
        return node in self._nodes and self._is_low(self._nodes[node], pods)


def high_node_utilization(args: PluginArgs) -> HighNodeUtilization:
    """HighNodeUtilization: `cpu` and `memory` in percent, 20 by default."""
    read = ArgsReader(NAME, args, THRESHOLDS)
    return HighNodeUtilization({name: read.number(name, 20) for name in (args or THRESHOLDS)})
