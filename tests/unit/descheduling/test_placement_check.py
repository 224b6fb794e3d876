"""Where a pod may go: each hard rule by example, and the fast form against the readable one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from drawn_cluster import cluster, node, pod
from drawn_rules import ruled_clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.descheduling.placement import ClusterPlacement, EvictionProposal, PlacedPod, after_moves
from slackwater.descheduling.placement_check import PlacementRefusal, placement_refusal, rule_refusal
from slackwater.descheduling.placement_index import PlacementIndex
from slackwater.model.placement_rules import (
    AntiAffinityRule,
    HostPort,
    NodeTaint,
    PodToleration,
    SpreadRule,
)

NODES = [
    node("n0", labels={"zone": "a", "host": "n0"}),
    node("n1", labels={"zone": "b", "host": "n1"}),
    node("n2", labels={"zone": "b", "host": "n2"}),
]
X = {"labels": {"app": "x"}}
APART = (AntiAffinityRule("zone", {"app": "x"}),)
ELSEWHERE = (AntiAffinityRule("zone", {"app": "x"}, namespaces=("other",)),)


def spread(**others: Any) -> tuple[SpreadRule, ...]:
    return (SpreadRule("zone", labels={"app": "x"}, **others),)


CASES: Sequence[tuple[str, Mapping[str, Any], Sequence[PlacedPod], PlacementRefusal | None]] = [
    ("free", X, [], None),
    ("unread", {"unread_rules": ("volumes",)}, [], PlacementRefusal.UNREAD_RULES),
    ("selector", {"node_selector": {"zone": "a"}}, [], PlacementRefusal.NODE_LABELS),
    ("its own anti-affinity", {"anti_affinity": APART}, [pod("o", "n2", **X)], PlacementRefusal.ANTI_AFFINITY),
    ("in another zone", {"anti_affinity": APART}, [pod("o", "n0", **X)], None),
    ("another namespace", {"anti_affinity": APART}, [pod("o", "n2", namespace="other", **X)], None),
    (
        "named namespace",
        {"anti_affinity": ELSEWHERE},
        [pod("o", "n2", namespace="other", **X)],
        PlacementRefusal.ANTI_AFFINITY,
    ),
    ("that of one there", X, [pod("o", "n2", anti_affinity=APART)], PlacementRefusal.ANTI_AFFINITY_THERE),
    ("of a failed one", X, [pod("o", "n2", anti_affinity=APART, phase="Failed")], None),
    ("opaque", X, [pod("o", "n1", unread_rules=("too-large",))], PlacementRefusal.OPAQUE_POD),
    (
        "a port",
        {"host_ports": (HostPort(80),)},
        [pod("o", "n1", host_ports=(HostPort(80, ip="10.0.0.1"),))],
        PlacementRefusal.HOST_PORTS,
    ),
    ("another protocol", {"host_ports": (HostPort(80),)}, [pod("o", "n1", host_ports=(HostPort(80, "UDP"),))], None),
    ("spread", {**X, "spread": spread()}, [pod("o", "n1", **X)], PlacementRefusal.TOPOLOGY_SPREAD),
    ("even", {**X, "spread": spread()}, [pod("o", "n1", **X), pod("o2", "n0", **X)], None),
    (
        "too few domains",
        {**X, "spread": spread(min_domains=3)},
        [pod("o", "n1", **X), pod("o2", "n0", **X)],
        PlacementRefusal.TOPOLOGY_SPREAD,
    ),
    ("a full node", X, [pod(f"o{number}", "n1") for number in range(20)], PlacementRefusal.REQUESTS),
    ("no device", {"requests": {"nvidia.com/gpu": 1}}, [], PlacementRefusal.REQUESTS),
]


@pytest.mark.parametrize(("name", "rules", "others", "refusal"), CASES, ids=[case[0] for case in CASES])
def test_what_keeps_a_pod_off_a_node(
    name: str, rules: Mapping[str, Any], others: Sequence[PlacedPod], refusal: PlacementRefusal | None
) -> None:
    placement = cluster(NODES, [pod("p", "n0", **rules), *others])
    moving = next(each for each in placement.pods["n0"] if each.uid == "p")
    assert placement_refusal(moving, NODES[1], placement) == refusal


def test_a_taint_that_is_tolerated_only_for_a_while_or_by_another_effect_keeps_a_pod_off() -> None:
    target = node("n1", taints=[NodeTaint("k", effect="NoExecute")])
    placement = cluster([NODES[0], target], [])
    other_effect = pod("p", tolerations=(PodToleration("k", effect="NoSchedule"),))
    assert rule_refusal(other_effect, target, placement) is PlacementRefusal.TAINTS
    assert rule_refusal(pod("p", tolerations=(PodToleration("k"),)), target, placement) is None


@pytest.mark.parametrize(("tolerated_only", "refused"), [(False, True), (True, False)])
def test_a_tainted_zone_counts_unless_the_rule_honours_taints(*, tolerated_only: bool, refused: bool) -> None:
    nodes = [NODES[0], replace(NODES[1], labels={"zone": "c"}, taints=[NodeTaint("k")]), NODES[2]]
    moving = pod("p", "n0", spread=spread(tolerated_only=tolerated_only), **X)
    placement = cluster(nodes, [moving, pod("o", "n2", **X), pod("o2", "n0", **X)])
    assert (rule_refusal(moving, nodes[2], placement) is not None) is refused


@pytest.mark.parametrize(("every_node", "refused"), [(True, True), (False, False)])
def test_a_zone_that_the_selector_excludes_counts_only_where_the_rule_says_so(
    *, every_node: bool, refused: bool
) -> None:
    nodes = [replace(each, labels={**each.labels, "disk": "ssd"}) for each in (NODES[0], NODES[2])]
    nodes.append(replace(NODES[1], labels={"zone": "c"}))
    moving = pod("p", "n0", node_selector={"disk": "ssd"}, spread=spread(every_node=every_node), **X)
    placement = cluster(nodes, [moving, pod("o", "n2", **X), pod("o2", "n0", **X)])
    assert (rule_refusal(moving, nodes[1], placement) is not None) is refused


@settings(max_examples=150)
@given(ruled_clusters(), st.data())
def test_the_index_finds_what_the_readable_form_finds(placement: ClusterPlacement, data: st.DataObject) -> None:
    index, pods = PlacementIndex(placement), [each for placed in placement.pods.values() for each in placed]
    for _ in range(data.draw(st.integers(1, 4))):
        asked = data.draw(st.sampled_from(pods))
        allowed = index.allowed(asked).tolist()
        assert allowed == [rule_refusal(asked, each, placement) is None for each in placement.nodes]
        live = [each for each in pods if not each.has_failed]
        if live:
            moving, target = data.draw(st.sampled_from(live)), data.draw(st.sampled_from(placement.nodes)).name
            index.place(moving, target)
            placement = after_moves(placement, [EvictionProposal(moving, target, "t", "")])
    new = replace(data.draw(st.sampled_from(pods)), uid="", phase="Running")
    placement.pods.setdefault(placement.nodes[0].name, []).append(new)  # type: ignore[attr-defined]
    index.place(new, placement.nodes[0].name)
    for asked in pods:
        allowed = index.allowed(asked).tolist()
        assert allowed == [rule_refusal(asked, each, placement) is None for each in placement.nodes]
