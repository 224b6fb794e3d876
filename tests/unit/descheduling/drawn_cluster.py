"""Clusters drawn by hypothesis, and a cluster to which proposals are applied under constant load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from slackwater.descheduling.placement import ClusterPlacement, EvictionProposal, KubeQos, PlacedPod, PlacementNode
from slackwater.model.tiers import Tier

ALLOCATABLE = {"cpu": 1000, "memory": 1000, "pods": 20}


def pod(name: str, node: str = "n0", **others: object) -> PlacedPod:
    plain = PlacedPod(
        name, name, "ns", node, f"w-{name}", ("ReplicaSet",), tier=Tier.BATCH, usage={"cpu": 100, "memory": 10}
    )
    return replace(plain, **others)  # type: ignore[arg-type]


def node(name: str, **others: object) -> PlacementNode:
    return replace(PlacementNode(name, ALLOCATABLE), **others)  # type: ignore[arg-type]


def cluster(nodes: Sequence[PlacementNode], pods: Sequence[PlacedPod]) -> ClusterPlacement:
    return ClusterPlacement(nodes, {each.name: [one for one in pods if one.node == each.name] for each in nodes})


def _drawn_pod(number: int, nodes: int, sizes: tuple[int, int, int], kind: int) -> PlacedPod:
    """Of two pods on a node one is often large. `kind` chooses all that is not an amount."""
    cpu, memory, requested = sizes
    return pod(
        f"p{number}",
        f"n{number % max(nodes // 2, 1)}",
        workload=f"w{number % 7}",
        tier=(Tier.PROD, Tier.BATCH, Tier.FREE)[kind % 3],
        kube_qos=KubeQos(kind % 2),
        requests={"cpu": requested},
        usage=None if kind % 11 == 10 else {"cpu": cpu, "memory": memory},
        node_selector={"zone": "a"} if kind % 4 == 3 else {},
        terminating=kind % 13 == 12,
    )


sizes_drawn = st.tuples(st.integers(0, 400), st.integers(0, 300), st.integers(0, 300))
pods_drawn = st.lists(st.tuples(sizes_drawn, st.integers(0, 142)), max_size=14)
nodes_drawn = st.lists(
    st.tuples(st.sampled_from([500, 1000, 2000]), st.sampled_from("ab"), st.sampled_from([False] * 6 + [True])),
    min_size=2,
    max_size=6,
)


def _drawn_cluster(
    shapes: list[tuple[int, str, bool]], pods: list[tuple[tuple[int, int, int], int]]
) -> ClusterPlacement:
    nodes = [
        node(f"n{number}", allocatable={**ALLOCATABLE, "cpu": cpu}, labels={"zone": zone}, unschedulable=cordoned)
        for number, (cpu, zone, cordoned) in enumerate(shapes)
    ]
    return cluster(nodes, [_drawn_pod(number, len(nodes), sizes, kind) for number, (sizes, kind) in enumerate(pods)])


clusters = st.builds(_drawn_cluster, nodes_drawn, pods_drawn)


def after_moves(placement: ClusterPlacement, proposals: Sequence[EvictionProposal]) -> ClusterPlacement:
    """Returns the cluster with each proposed pod on its target, with the same load."""
    targets = {proposal.pod.uid: proposal.target for proposal in proposals}
    pods = [
        replace(each, node=targets.get(each.uid, each.node)) for placed in placement.pods.values() for each in placed
    ]
    return cluster(placement.nodes, pods)
