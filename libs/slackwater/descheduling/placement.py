"""The cluster as descheduling reads it: nodes, the pods on them, what both use. A snapshot, without behaviour.

Amounts are by resource name: `cpu` in milli-cores, `memory` in bytes, others as the field counts them. `pods` is the
number of pods, and is never part of a pod's own amounts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from enum import IntEnum, StrEnum
from typing import Final, Protocol

from slackwater.model.placement_rules import (
    AntiAffinityRule,
    HostPort,
    LabelRequirement,
    NodeTaint,
    PodToleration,
    SpreadRule,
    all_hold,
)
from slackwater.model.pods import FAILED, RUNNING
from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier

Amounts = Mapping[str, int]
PODS = "pods"


class KubeQos(IntEnum):
    """The QoS class of Kubernetes, in the order of eviction."""

    BEST_EFFORT = 0
    BURSTABLE = 1
    GUARANTEED = 2


class LoadSource(StrEnum):
    """Which load is balanced."""

    MEASURED = "measured"
    PREDICTED = "predicted"


@record(frozen=True, slots=True)
class LoadBasis:
    """By which load nodes are compared before and after moves."""

    source: LoadSource | None = None
    """None: what pods are expected to use."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """By resource, `pods` among them; empty: CPU and memory alike."""


EXPECTED: Final = LoadBasis()


@record(frozen=True, slots=True)
class PlacedPod:
    """A pod on a node."""

    uid: str
    name: str
    namespace: str
    node: str
    workload: str = ""
    owner_kinds: Sequence[str] = ()
    priority: int | None = None
    tier: Tier | None = None
    qos: QoSClass | None = None
    kube_qos: KubeQos = KubeQos.BURSTABLE
    created_s: float = 0.0
    requests: Amounts = field(default_factory=dict)
    usage: Amounts | None = None
    """None: not measured."""
    peak: Amounts | None = None
    """Predicted; None: no prediction."""
    phase: str = RUNNING
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Sequence[Sequence[LabelRequirement]] = ()
    """Terms of which one must hold."""
    tolerations: Sequence[PodToleration] = ()
    images: Sequence[str] = ()
    restarts: int = 0
    """Of all its containers."""
    phase_reason: str = ""
    spread: Sequence[SpreadRule] = ()
    anti_affinity: Sequence[AntiAffinityRule] = ()
    host_ports: Sequence[HostPort] = ()
    arriving: bool = False
    """It is counted where it is to be: its move there is under way."""
    move_failed: bool = False
    """Its last move was refused, or given up, a short while ago."""
    mirror: bool = False
    static: bool = False
    terminating: bool = False
    local_storage: bool = False
    pvc: bool = False
    unread_rules: Sequence[str] = ()
    """Hard rules that are not among these: no target is known to be allowed."""

    @property
    def has_failed(self) -> bool:
        """Whether it has ended with a failure: it uses nothing, and needs no place elsewhere."""
        return self.phase == FAILED

    def load(self, source: LoadSource) -> Amounts | None:
        """Returns the load that is balanced; None where it is not known."""
        return self.usage if source is LoadSource.MEASURED else self.peak


@record(frozen=True, slots=True)
class PlacementNode:
    """A node."""

    name: str
    allocatable: Amounts
    """With `pods`."""
    system_usage: Amounts = field(default_factory=dict)
    system_peak: Amounts = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[NodeTaint] = ()
    unschedulable: bool = False
    reports: Sequence[str] = ()
    """What its agent reports of its pods beyond usage (slackwater.model.nodes.PodDetail)."""
    measured_s: float | None = None
    """When its load was measured; None: its load is not judged by age."""
    load_limits: Amounts = field(default_factory=dict)
    """What the predicted load may come to with a pod that a reservation brings; a resource without a limit is left out.
    """

    def system_load(self, source: LoadSource) -> Amounts:
        """Returns what does not belong to pods."""
        return self.system_usage if source is LoadSource.MEASURED else self.system_peak


@record(frozen=True, slots=True)
class ClusterPlacement:
    """Nodes, and the pods by node. Of pods that have ended only failed ones are among them."""

    nodes: Sequence[PlacementNode]
    pods: Mapping[str, Sequence[PlacedPod]]


@record(frozen=True, slots=True)
class EvictionProposal:
    """A pod that would be better elsewhere: why, and where it would fit."""

    pod: PlacedPod
    target: str
    """Node whose headroom is reserved for it; empty where the plugin looks for none, or the pod has failed."""
    plugin: str
    reason: str


class EvictionGate(Protocol):
    """Filters and limits of a cycle, which fill up while it proposes."""

    def allows(self, pod: PlacedPod) -> bool:
        """Whether the pod may be proposed now."""

    def place(self, pod: PlacedPod, among: Collection[str] | None = None) -> str | None:
        """Returns the node where room is now reserved for the pod; None where no other node holds it, and empty where
        the cycle looks for none or the pod has failed. `among`: names of the nodes that would be better; None: any."""

    def accepts(self, pod: PlacedPod, target: str) -> bool:
        """Whether no other plugin of the profile would undo the move."""

    def record(self, pod: PlacedPod, target: str = "") -> None:
        """Counts a pod that is proposed. `target`: where `accepts` allowed it to go."""


def predicted_load(pod: PlacedPod) -> Amounts:
    """Returns the predicted peak, or what stands in for it."""
    return expected_peak(pod.requests) if pod.peak is None else pod.peak


def expected_peak(requests: Amounts) -> dict[str, int]:
    """Returns the load that stands in for a peak that is not predicted: the requests, of whichever tier."""
    found: dict[str, int] = {}
    for resource, amount in requests.items():
        name = resource.rpartition("-")[2]
        found[name] = found.get(name, 0) + amount
    return found


def after_moves(cluster: ClusterPlacement, proposals: Sequence[EvictionProposal]) -> ClusterPlacement:
    """Returns the cluster with each proposed pod on its target, and the same load. One without a target stays."""
    moves = {proposal.pod.uid: proposal for proposal in proposals if proposal.target}
    if not moves:
        return cluster
    pods = {name: [pod for pod in placed if pod.uid not in moves] for name, placed in cluster.pods.items()}
    for proposal in moves.values():
        pods.setdefault(proposal.target, []).append(replace(proposal.pod, node=proposal.target))
    return ClusterPlacement(cluster.nodes, pods)


def admits(node: PlacementNode, pod: PlacedPod) -> bool:
    """Whether the node's labels, taints and cordon allow the pod, room aside."""
    return not node.unschedulable and admits_labels(node, pod) and tolerates(pod, node)


def tolerates(pod: PlacedPod, node: PlacementNode) -> bool:
    """Whether the pod may come to the node and stay there, as far as taints decide: of each effect but
    PreferNoSchedule."""
    return all(
        taint.effect == "PreferNoSchedule" or any(toleration.matches(taint) for toleration in pod.tolerations)
        for taint in node.taints
    )


def admits_labels(node: PlacementNode, pod: PlacedPod) -> bool:
    """Whether the labels of the node are what the pod's node selector and affinity want."""
    return all(node.labels.get(key) == value for key, value in pod.node_selector.items()) and (
        not pod.affinity or any(all_hold(term, node.labels) for term in pod.affinity)
    )


def free_for_requests(node: PlacementNode, pods: Sequence[PlacedPod]) -> dict[str, int]:
    """Returns the allocatable amounts less the requests of the pods on the node; below 0 where over-committed."""
    free = dict(node.allocatable)
    live = [pod for pod in pods if not pod.has_failed]
    free[PODS] = free.get(PODS, 2**31) - len(live)
    for pod in live:
        for resource, amount in pod.requests.items():
            if resource in free:
                free[resource] -= amount
    return free


def requests_fit(free: Amounts, pod: PlacedPod) -> bool:
    """Whether what is free holds the pod. A resource that the node does not have fits nothing."""
    return free[PODS] >= 1 and all(amount <= free.get(resource, 0) for resource, amount in pod.requests.items())
