"""The nodes of a profile as descheduling reads them, from the fold of all events.

What an agent does not report is empty, and `PlacementNode.reports` says what it does. A node that is not fresh, or
cordoned, takes no pods. Marks of the field are annotations in Kubernetes; agents report them as labels, so labels stand
for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import numpy as np

from slackwater.cluster.view import CPU, MEMORY, QOS_CLASSES, TIERS, Amounts, ClusterView, LivenessCode, Source
from slackwater.descheduler.domain.move_jobs import NO_MOVES, OpenMoves
from slackwater.descheduling.placement import ClusterPlacement, KubeQos, PlacedPod, PlacementNode
from slackwater.descheduling.profile import ProfileScope
from slackwater.descheduling.reported_pods import other_resources, with_details
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.offers.node_notes import allocatable_of

_GUARANTEED: Final = dict.fromkeys((QoSClass.LSR, QoSClass.LSE), KubeQos.GUARANTEED)
_KUBE_QOS: Final = {QoSClass.BE: KubeQos.BEST_EFFORT, **_GUARANTEED}
_UNOWNED_KINDS: Final = frozenset({"Pod", "Node"})
_OWNED: Final = ("Workload",)


def placement_of(
    view: ClusterView,
    scope: ProfileScope,
    moves: OpenMoves = NO_MOVES,
    shares: Mapping[str, float] = MappingProxyType({}),
) -> ClusterPlacement:
    """Returns the nodes that the profile reads and the pods on them. `shares`: of the allocatable amount that the
    predicted load may take with a pod that moves by reservation, by resource; empty: no limit. A pod whose move is
    pending counts on its target, as one that is terminating, so that a cycle does not relieve a node twice. One whose
    move failed a short while ago is marked."""
    nodes, pods_of = view.nodes, view.pods_by_node()
    targets = {move.pod_uid: move.target for move in moves.pending if move.target}
    placed: dict[str, list[PlacedPod]] = {}
    read: list[PlacementNode] = []
    for row in np.flatnonzero(nodes.exists & nodes.allocatable.known.all(axis=1)).tolist():
        facts = nodes.facts[row]
        if facts is None or not scope.reads(facts.pool, facts.labels):
            continue
        node = _node(view, row)
        limits = {name: int(share * node.allocatable.get(name, 0)) for name, share in shares.items()}
        read.append(replace(node, load_limits=limits) if limits else node)
        pods = [
            *_pods(view, row, pods_of[0][pods_of[1][row] : pods_of[1][row + 1]].tolist()),
            *(_failed(pod, facts.name) for pod in nodes.failed[row]),
        ]
        placed[facts.name] = [replace(pod, move_failed=True) if pod.uid in moves.failed else pod for pod in pods]
    for name, pods in list(placed.items()):
        for pod in pods:
            target = targets.get(pod.uid, name)
            if target != name and target in placed:
                placed[name] = [each for each in placed[name] if each.uid != pod.uid]
                placed[target] = [*placed[target], replace(pod, node=target, terminating=True, arriving=True)]
    return ClusterPlacement(read, placed)


def _node(view: ClusterView, row: int) -> PlacementNode:
    nodes, facts = view.nodes, view.nodes.facts[row]
    measured = nodes.at[row, Source.REPORTED]
    own = _amounts(nodes.allocatable, row)
    if facts is not None and facts.annotations:
        raw = allocatable_of(facts.annotations, Resources(own["cpu"], own["memory"]))
        own = {"cpu": raw.cpu_milli, "memory": raw.memory_bytes}
    return PlacementNode(
        name=nodes.names[row],
        allocatable={**own, **_offers(view, row), **other_resources(facts)},
        system_usage=_amounts(nodes.system_usage, row),
        system_peak=dict(zip(("cpu", "memory"), nodes.system_load(row), strict=True)),
        labels={} if facts is None else facts.labels,
        taints=() if facts is None else facts.taints,
        reports=() if facts is None else facts.reports,
        unschedulable=bool(nodes.cordoned[row]) or nodes.liveness[row] in (LivenessCode.STALE, LivenessCode.LOST),
        measured_s=measured / 1e6,
    )


def _pods(view: ClusterView, node: int, rows: Sequence[int]) -> list[PlacedPod]:
    pods, name, found = view.pods, view.nodes.names[node], []
    for row in rows:
        described = pods.described[row]
        if described is None:
            continue
        tier, qos = TIERS[pods.tier[row]], QOS_CLASSES[pods.qos[row]]
        placed = PlacedPod(
            uid=described.uid,
            name=described.name,
            namespace=described.namespace,
            node=name,
            workload=described.workload,
            owner_kinds=owner_kinds(described.workload, described.name),
            priority=int(pods.priority[row]),
            tier=tier,
            qos=qos,
            kube_qos=_KUBE_QOS.get(qos, KubeQos.BURSTABLE),
            created_s=described.started_at.timestamp(),
            requests=_requests(pods.request, row, tier),
            usage=_known(pods.usage, row),
            peak=_known(pods.peak, row),
            labels=described.labels,
            annotations=described.labels,
            terminating=bool(pods.evicting[row]),
        )
        found.append(with_details(placed, described))
    return found


def _failed(pod: Pod, node: str) -> PlacedPod:
    """A pod that has ended: it uses and requests nothing."""
    placed = PlacedPod(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        node=node,
        workload=pod.workload,
        owner_kinds=owner_kinds(pod.workload, pod.name),
        priority=pod.priority,
        tier=pod.tier,
        qos=pod.qos,
        kube_qos=_KUBE_QOS.get(pod.qos, KubeQos.BURSTABLE),
        created_s=pod.started_at.timestamp(),
        usage={},
        peak={},
        labels=pod.labels,
        annotations=pod.labels,
    )
    return with_details(placed, pod)


def owner_kinds(workload: str, pod: str) -> tuple[str, ...]:
    """Returns the kind of a pod's controller; empty for a bare pod. In a cluster the workload is NAMESPACE/KIND/NAME;
    a command on plain Linux names it, and the pod is called after it."""
    parts = workload.split("/")
    if len(parts) == 3:
        return () if parts[1] in _UNOWNED_KINDS else (parts[1],)
    return () if workload in ("", pod) else _OWNED


def _amounts(amounts: Amounts, row: int) -> dict[str, int]:
    return {"cpu": int(amounts.value[row, CPU]), "memory": int(amounts.value[row, MEMORY])}


def _offers(view: ClusterView, row: int) -> dict[str, int]:
    """What the node lends. Without an offer it has no such resource, and takes no pod of that tier."""
    found: dict[str, int] = {}
    for tier, offer in ((Tier.BATCH, view.nodes.batch), (Tier.MID, view.nodes.mid)):
        if offer.known[row].all():
            found |= {f"{tier.value}-{name}": amount for name, amount in _amounts(offer, row).items()}
    return found


def _requests(requests: Amounts, row: int, tier: Tier) -> dict[str, int]:
    """By the resource that a pod of the tier requests; free pods request nothing."""
    amounts = _amounts(requests, row)
    if tier is Tier.PROD:
        return amounts
    return {} if tier is Tier.FREE else {f"{tier.value}-{name}": amount for name, amount in amounts.items()}


def _known(amounts: Amounts, row: int) -> dict[str, int] | None:
    return _amounts(amounts, row) if amounts.known[row].all() else None
