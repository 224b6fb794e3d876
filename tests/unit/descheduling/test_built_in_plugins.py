"""The built-in plugins: what each finds, where it goes, and that rounds over a constant cluster end."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drawn_cluster import cluster, clusters, node, pod
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.descheduling.cycle import CycleLimits
from slackwater.descheduling.move_history import RestRules
from slackwater.descheduling.placement import (
    ClusterPlacement,
    EvictionProposal,
    PlacedPod,
    PlacementNode,
    admits,
    after_moves,
    free_for_requests,
)
from slackwater.descheduling.placement_document import placement_document, placement_from
from slackwater.descheduling.plugins import ENTRY_POINT
from slackwater.descheduling.profile import DeclaredProfile, PluginChoice
from slackwater.descheduling.profile_cycle import ProfilePlan, run_profile
from slackwater.descheduling.registry import BUILT_IN
from slackwater.model.errors import InvalidInput
from slackwater.model.placement_rules import AntiAffinityRule, NodeTaint, PodToleration, SpreadRule

NOW_S = 10_000.0
OLD = {"created_s": 1000.0}
ZONES = [node("n0", labels={"zone": "a"}), node("n1", labels={"zone": "b"}), node("n2", labels={"zone": "b"})]
SPREAD = (SpreadRule("zone", 1, {"app": "x"}),)
APART = (AntiAffinityRule("zone", {"app": "x"}),)
NO_LIMITS = {"limits": CycleLimits(), "rest": RestRules(0.0, 10**6, 0.0)}


def plan_of(
    placement: ClusterPlacement, plugin: str, args: Mapping[str, Any] | None = None, now_s: float = NOW_S
) -> ProfilePlan:
    profile = DeclaredProfile("p", plugins=(PluginChoice(plugin, args or {}),), **NO_LIMITS)  # type: ignore[arg-type]
    return run_profile(placement, profile, {}, {}, now_s)


def moved(
    plugin: str, args: Mapping[str, Any], nodes: Sequence[PlacementNode], pods: Sequence[PlacedPod]
) -> list[tuple[str, str]]:
    return [(move.pod.uid, move.target) for move in plan_of(cluster(nodes, pods), plugin, args).moves]


def x(name: str, at: str, **others: Any) -> PlacedPod:
    return pod(name, at, labels={"app": "x"}, workload="w", **others)


CASES: Sequence[tuple[str, Mapping[str, Any], Sequence[PlacedPod], list[tuple[str, str]]]] = [
    ("PodLifeTime", {"maxPodLifeTimeSeconds": 5000}, [pod("p0", **OLD), pod("p1", created_s=9000.0)], [("p0", "n1")]),
    ("PodLifeTime", {"maxPodLifeTimeSeconds": 5000, "states": ["Pending"]}, [pod("p0", **OLD)], []),
    ("PodLifeTime", {"maxPodLifeTimeSeconds": 5000}, [pod("p0")], []),  # its age is not known
    ("RemovePodsHavingTooManyRestarts", {}, [pod("p0", restarts=100), pod("p1", restarts=99)], [("p0", "n1")]),
    ("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 5}, [pod("p0", restarts=5)], [("p0", "n1")]),
    ("RemoveFailedPods", {}, [pod("p0", phase="Failed"), pod("p1")], [("p0", "")]),
    ("RemoveFailedPods", {"reasons": ["OOM"]}, [pod("p0", phase="Failed", phase_reason="Other")], []),
    ("RemoveFailedPods", {"excludeOwnerKinds": ["ReplicaSet"]}, [pod("p0", phase="Failed")], []),
    ("RemoveFailedPods", {"minPodLifetimeSeconds": 9001}, [pod("p0", phase="Failed", **OLD)], []),
    ("RemovePodsViolatingNodeAffinity", {}, [pod("p0", node_selector={"zone": "b"}), pod("p1")], [("p0", "n1")]),
    ("RemovePodsViolatingNodeAffinity", {}, [pod("p0", node_selector={"zone": "c"})], []),  # no node fits
    ("RemoveDuplicates", {}, [x("p0", "n0"), x("p1", "n0"), x("p2", "n1")], [("p0", "n2")]),
    ("RemoveDuplicates", {}, [x("p0", "n0"), x("p1", "n0", images=["i"])], []),
    ("RemoveDuplicates", {"excludeOwnerKinds": ["ReplicaSet"]}, [x("p0", "n0"), x("p1", "n0")], []),
    (
        "RemovePodsViolatingTopologySpreadConstraint",
        {},
        [x(f"p{number}", "n0", spread=SPREAD) for number in range(4)],
        [("p0", "n1"), ("p1", "n2")],
    ),
    ("RemovePodsViolatingTopologySpreadConstraint", {}, [x("p0", "n0", spread=SPREAD)], []),
    (
        "RemovePodsViolatingInterPodAntiAffinity",
        {},
        [x("p0", "n1", anti_affinity=APART), x("p1", "n2")],
        [("p0", "n0")],
    ),
    ("RemovePodsViolatingInterPodAntiAffinity", {}, [x("p0", "n0", anti_affinity=APART), x("p1", "n1")], []),
    (
        "HighNodeUtilization",
        {"cpu": 20},
        [pod("p0"), pod("p1", "n1"), pod("p2", "n1")],
        [("p0", "n1")],
    ),
    ("HighNodeUtilization", {"cpu": 20}, [pod("p0")], []),  # an empty node is not filled
]


@pytest.mark.parametrize(("plugin", "args", "pods", "expected"), CASES)
def test_what_a_plugin_proposes(
    plugin: str, args: Mapping[str, Any], pods: Sequence[PlacedPod], expected: list[tuple[str, str]]
) -> None:
    assert moved(plugin, args, ZONES, pods) == expected


@pytest.mark.parametrize(
    ("taint", "args", "leaves"),
    [
        (NodeTaint("k", "v"), {}, True),
        (NodeTaint("k", "v"), {"excludedTaints": ["k"]}, False),
        (NodeTaint("k", "v", "PreferNoSchedule"), {}, False),
        (NodeTaint("k", "v", "PreferNoSchedule"), {"includePreferNoSchedule": True}, True),
    ],
)
def test_pods_leave_taints_that_they_do_not_tolerate(taint: NodeTaint, args: dict[str, Any], *, leaves: bool) -> None:
    nodes = [node("n0", taints=[taint]), node("n1")]
    pods = [pod("p0"), pod("p1", tolerations=[PodToleration("k")])]
    assert moved("RemovePodsViolatingNodeTaints", args, nodes, pods) == ([("p0", "n1")] if leaves else [])


def test_a_target_keeps_the_margin_and_takes_no_pod_twice() -> None:
    nodes, old = [node("n0"), node("n1")], {"created_s": 1.0, "usage": {"cpu": 480, "memory": 1}}
    plan = plan_of(cluster(nodes, [pod("p0", **old), pod("p1", **old)]), "PodLifeTime", {"maxPodLifeTimeSeconds": 1})
    assert [move.pod.uid for move in plan.moves] == ["p0"], "two would use 96 %, and 5 % stay free"
    assert plan.refusals == {"no_target": 1}
    assert plan.moves[0].gain == pytest.approx((960 - 480) / 1000 / 2 + (2 - 1) / 1000 / 2)


@pytest.mark.parametrize(
    ("plugin", "args", "problem"),
    [
        ("PodLifeTime", {}, "maxPodLifeTimeSeconds must be a number"),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": True}, "must be a number"),
        ("PodLifeTime", {"maxPodLifeTimeSeconds": 9, "states": "Running"}, "must be a list of texts"),
        ("RemoveDuplicates", {"namespaces": ["a"]}, "is no argument; allowed: excludeOwnerKinds"),
        ("RemovePodsViolatingNodeTaints", {"includePreferNoSchedule": 1}, "must be true or false"),
    ],
)
def test_wrong_arguments_are_refused_by_name(plugin: str, args: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        BUILT_IN[plugin](args)


def test_the_entry_points_are_the_built_in_plugins() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"][ENTRY_POINT]
    assert declared == {name: f"{made.__module__}:{made.__name__}" for name, made in BUILT_IN.items()}


marks = st.sampled_from(
    [
        {},
        {"restarts": 200},
        {"phase": "Failed"},
        {"spread": SPREAD, "labels": {"app": "x"}},
        {"anti_affinity": APART, "labels": {"app": "x"}},
    ]
)
SETTLING = ("RemoveDuplicates", "HighNodeUtilization", "RemovePodsViolatingTopologySpreadConstraint")


@settings(max_examples=30)
@given(clusters, st.lists(marks, min_size=1), st.sampled_from(sorted(BUILT_IN)))
def test_a_proposal_has_a_node_that_holds_it_and_rounds_end(
    placement: ClusterPlacement, drawn: Sequence[Mapping[str, Any]], plugin: str
) -> None:
    pods = [each for placed in placement.pods.values() for each in placed]
    placement = cluster(
        placement.nodes, [replace(each, **drawn[place % len(drawn)]) for place, each in enumerate(pods)]
    )
    document = json.loads(json.dumps(placement_document(placement)))
    assert placement_document(placement_from(document)) == document
    args = {"maxPodLifeTimeSeconds": 5} if plugin == "PodLifeTime" else {}
    for _ in range(12):
        plan = plan_of(placement, plugin, args)
        proposals = [EvictionProposal(move.pod, move.target, move.plugin, move.reason) for move in plan.moves]
        after = after_moves(placement, proposals)
        for each in after.nodes:
            arrived = [move.pod for move in plan.moves if move.target == each.name]
            assert all(admits(each, moving) for moving in arrived)
            if arrived:
                assert min(free_for_requests(each, after.pods[each.name]).values()) >= 0
        if not plan.moves or plugin not in SETTLING:
            return
        placement = after
    raise AssertionError(f"{plugin} does not come to rest")
