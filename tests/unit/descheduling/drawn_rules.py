"""Pods with hard rules, drawn by hypothesis: few values of each kind, so that rules meet."""

from __future__ import annotations

from drawn_cluster import cluster, node, pod
from hypothesis import strategies as st

from slackwater.descheduling.placement import ClusterPlacement, PlacedPod, PlacementNode
from slackwater.model.placement_rules import (
    AntiAffinityRule,
    HostPort,
    LabelOperator,
    LabelRequirement,
    NodeTaint,
    PodToleration,
    SpreadRule,
)

KEYS, APPS, NAMESPACES = ("zone", "host"), ("x", "y"), ("ns", "other")
_labels = st.sampled_from([{}, {"app": "x"}, {"app": "y"}, {"app": "x", "tier": "1"}])
_expressions = st.sampled_from(
    [(), (), (LabelRequirement("tier", LabelOperator.DOES_NOT_EXIST),), (LabelRequirement("app", values=()),)]
)
_anti = st.builds(
    AntiAffinityRule,
    st.sampled_from(KEYS),
    _labels,
    _expressions,
    st.sampled_from([(), (), ("other",), NAMESPACES]),
    st.sampled_from([False, False, True]),
)
_spread = st.builds(
    SpreadRule,
    st.sampled_from(KEYS),
    st.integers(1, 2),
    _labels,
    _expressions,
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
_ports = st.builds(
    HostPort,
    st.sampled_from([80, 81]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from(["", "::", "10.0.0.1", "10.0.0.2"]),
)


def _few(items: st.SearchStrategy[object], most: int) -> st.SearchStrategy[tuple[object, ...]]:
    return st.one_of(st.just(()), st.lists(items, max_size=most).map(tuple))


@st.composite
def ruled_pods(draw: st.DrawFn, name: str, at: str) -> PlacedPod:
    """A pod on a node, often with rules."""
    return pod(
        name,
        at,
        workload=draw(st.sampled_from(["w0", "w1"])),
        namespace=draw(st.sampled_from(NAMESPACES)),
        labels=draw(_labels),
        requests=draw(st.sampled_from([{}, {"cpu": 300}, {"gpu": 1}])),
        anti_affinity=draw(_few(_anti, 2)),
        spread=draw(_few(_spread, 2)),
        host_ports=draw(_few(_ports, 2)),
        node_selector=draw(st.sampled_from([{}, {}, {}, {"zone": "a"}])),
        tolerations=draw(st.sampled_from([(), (PodToleration("spot"),)])),
        unread_rules=draw(st.sampled_from([()] * 12 + [("volumes",), ("too-large",)])),
        phase=draw(st.sampled_from(["Running"] * 8 + ["Failed"])),
        terminating=draw(st.sampled_from([False] * 6 + [True])),
        arriving=draw(st.sampled_from([False] * 6 + [True])),
    )


@st.composite
def ruled_nodes(draw: st.DrawFn, name: str) -> PlacementNode:
    """A node, not always with the labels that rules are about."""
    labels = {"host": name, **draw(st.sampled_from([{"zone": "a"}, {"zone": "b"}, {"zone": "c"}, {}]))}
    return node(
        name,
        labels=labels if draw(st.sampled_from([True] * 6 + [False])) else {},
        allocatable={
            "cpu": draw(st.sampled_from([300, 1000])),
            "memory": 1000,
            "pods": draw(st.integers(1, 5)),
            **draw(st.sampled_from([{}, {"gpu": 1}])),
        },
        taints=draw(st.sampled_from([(), (), (NodeTaint("spot"),), (NodeTaint("x", effect="PreferNoSchedule"),)])),
        unschedulable=draw(st.sampled_from([False] * 6 + [True])),
    )


@st.composite
def ruled_clusters(draw: st.DrawFn, most_pods: int = 10) -> ClusterPlacement:
    """A few nodes with pods that have rules."""
    nodes = [draw(ruled_nodes(f"n{number}")) for number in range(draw(st.integers(2, 5)))]
    pods = [
        draw(ruled_pods(f"p{number}", draw(st.sampled_from(nodes)).name))
        for number in range(draw(st.integers(1, most_pods)))
    ]
    return cluster(nodes, pods)
