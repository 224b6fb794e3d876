"""Profiles as a whole: every target is allowed, and under constant load a profile comes to rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from drawn_cluster import ALLOCATABLE, cluster, node, pod
from drawn_rules import ruled_clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.descheduling.anomaly import AnomalyCondition
from slackwater.descheduling.cycle import CycleLimits
from slackwater.descheduling.low_node_load import NAME as LOW_NODE_LOAD
from slackwater.descheduling.low_node_load import LowNodeLoadArgs, LowNodeLoadPool
from slackwater.descheduling.move_history import RestRules
from slackwater.descheduling.placement import ClusterPlacement, EvictionProposal, LoadSource, after_moves
from slackwater.descheduling.placement_check import placement_refusal
from slackwater.descheduling.profile import DeclaredProfile, PluginChoice
from slackwater.descheduling.profile_cycle import ProfilePlan, run_profile
from slackwater.descheduling.registry import BUILT_IN
from slackwater.resources.selectors import Selector

NOW_S = 10_000.0
AT_ONCE = AnomalyCondition(consecutive_abnormalities=1)
LOAD = LowNodeLoadArgs([LowNodeLoadPool("all", {"cpu": 30}, {"cpu": 50})], anomaly=AT_ONCE)
BY_TIME = {"PodLifeTime", "RemoveFailedPods", "RemovePodsHavingTooManyRestarts"}
"""What they judge by begins anew with the new pod."""
EVENING = sorted(set(BUILT_IN) - BY_TIME)
ARGS = {"PodLifeTime": {"maxPodLifeTimeSeconds": 5}, "RemovePodsViolatingNodeTaints": {"includePreferNoSchedule": True}}


def profile(plugins: Sequence[str], load: LowNodeLoadArgs | None = None) -> DeclaredProfile:
    choices = [PluginChoice(name, ARGS.get(name, {})) for name in plugins]
    return DeclaredProfile(
        "p", plugins=choices, low_node_load=load, limits=CycleLimits(), rest=RestRules(0.0, 10**6, 0.0)
    )


def plan_of(placement: ClusterPlacement, declared: DeclaredProfile) -> tuple[ProfilePlan, ClusterPlacement]:
    plan = run_profile(placement, declared, {}, {}, NOW_S)
    proposals = [EvictionProposal(move.pod, move.target, move.plugin, move.reason) for move in plan.moves]
    return plan, after_moves(placement, proposals)


def loaded(placement: ClusterPlacement, loads: Sequence[int]) -> ClusterPlacement:
    pods = [each for placed in placement.pods.values() for each in placed]
    used = [
        replace(each, usage={"cpu": loads[place % len(loads)], "memory": 5}, restarts=200, created_s=1.0)
        for place, each in enumerate(pods)
    ]
    return cluster(placement.nodes, used)


loads_drawn = st.lists(st.integers(0, 400), min_size=1, max_size=8)


@settings(max_examples=60)
@given(
    ruled_clusters(), st.lists(st.sampled_from(sorted(BUILT_IN)), max_size=3, unique=True), loads_drawn, st.booleans()
)
def test_no_plugin_proposes_a_target_that_a_hard_rule_forbids(
    placement: ClusterPlacement, plugins: Sequence[str], loads: Sequence[int], balanced: bool
) -> None:
    placement = loaded(placement, loads)
    plan, _ = plan_of(placement, profile(plugins, LOAD if balanced else None))
    assert all(move.gain >= LOAD.margin - 1e-9 for move in plan.moves if move.plugin == LOW_NODE_LOAD), "by CPU as used"
    nodes = {each.name: each for each in placement.nodes}
    for move in plan.moves:
        if move.pod.has_failed:
            continue
        assert placement_refusal(move.pod, nodes[move.target], placement) is None, move
        placement = after_moves(placement, [EvictionProposal(move.pod, move.target, move.plugin, move.reason)])


@settings(max_examples=120)
@given(ruled_clusters(), st.permutations(EVENING), st.integers(1, len(EVENING)), loads_drawn, st.booleans())
def test_a_profile_comes_to_rest_under_constant_load(
    placement: ClusterPlacement, order: Sequence[str], count: int, loads: Sequence[int], balanced: bool
) -> None:
    placement = loaded(placement, loads)
    declared = profile(order[:count], LOAD if balanced else None)
    for _ in range(40):
        plan, placement = plan_of(placement, declared)
        if not plan.moves:
            return
    raise AssertionError("the profile does not come to rest")


def test_load_and_duplicates_do_not_undo_each_other() -> None:
    nodes = [node("n0", allocatable={**ALLOCATABLE, "cpu": 300}), node("n1"), node("n2")]
    pods = [pod(f"p{number}", f"n{number % 3}", workload="w", usage={"cpu": 160, "memory": 1}) for number in range(3)]
    declared, placement, moved = profile(["RemoveDuplicates"], LOAD), cluster(nodes, pods), 0
    for _ in range(6):
        plan, placement = plan_of(placement, declared)
        moved += len(plan.moves)
    assert moved <= 1
    assert not plan.moves


def test_the_gain_of_a_move_for_load_is_in_the_load_that_is_balanced() -> None:
    """Measured, n1 is idle; its predicted peak is above that of n0."""
    pods = [pod(f"p{number}", usage={"cpu": 200, "memory": 1}, peak={"cpu": 200, "memory": 1}) for number in range(3)]
    nodes = [node("n0"), node("n1", system_peak={"cpu": 600, "memory": 0})]
    (move,) = plan_of(cluster(nodes, pods), profile([], LOAD))[0].moves
    assert (move.loads.node_before, move.loads.target_after) == (0.6, 0.2)
    assert not plan_of(cluster(nodes, pods), profile([], replace(LOAD, load=LoadSource.PREDICTED)))[0].moves


def test_a_move_for_load_that_gains_nothing_is_not_planned() -> None:
    """Without a margin a target may become as loaded as the node was."""
    whole = {"cpu": 600, "memory": 10}
    declared = profile([], replace(LOAD, pools=[LowNodeLoadPool("all", {"cpu": 30}, {"cpu": 90})], margin=0.0))
    small = node("n0", allocatable={**ALLOCATABLE, "cpu": 650})
    plan, _ = plan_of(
        cluster([small, node("n1", allocatable={**ALLOCATABLE, "cpu": 667})], [pod("p", usage=whole)]), declared
    )
    assert [move.gain > 0 for move in plan.moves] == [True]
    plan, _ = plan_of(
        cluster([small, node("n1", allocatable={**ALLOCATABLE, "cpu": 650})], [pod("p", usage=whole)]), declared
    )
    assert not plan.moves


def test_a_pod_with_an_unread_rule_stays_and_the_rule_is_named() -> None:
    """A mark that lifts protections does not lift this one."""
    marked = {"annotations": {"slackwater.io/evict": "true"}, "created_s": 1.0, "unread_rules": ("volumes",)}
    plan, _ = plan_of(cluster([node("n0"), node("n1")], [pod("p0", **marked)]), profile(["PodLifeTime"]))
    assert not plan.moves
    assert [(held.reason, held.detail) for held in plan.held] == [("unread_rules", "volumes")]


POOL = LowNodeLoadPool("all", {"cpu": 30, "memory": 60}, {"cpu": 50, "memory": 80})
BALANCED = {
    "two pools that share nodes": LowNodeLoadArgs(
        [
            LowNodeLoadPool("a", {"cpu": 40}, {"cpu": 60}, selector=Selector(labels={"zone": "a"})),
            LowNodeLoadPool("all", {"cpu": 20}, {"cpu": 45}),
        ],
        anomaly=AT_ONCE,
    ),
    "thresholds from the mean": LowNodeLoadArgs(
        [replace(POOL, low={"cpu": 5}, high={"cpu": 5}, use_deviation=True)], anomaly=AT_ONCE
    ),
    "prod below and beside": LowNodeLoadArgs(
        [replace(POOL, prod_low={"cpu": 20}, prod_high={"cpu": 35})], anomaly=AT_ONCE
    ),
    "predicted": LowNodeLoadArgs([POOL], anomaly=AT_ONCE, load=LoadSource.PREDICTED),
    "without a margin or fitting requests": LowNodeLoadArgs([POOL], anomaly=AT_ONCE, margin=0.0, node_fit=False),
    "how many pods": LowNodeLoadArgs([LowNodeLoadPool("all", {"pods": 10}, {"pods": 20})], anomaly=AT_ONCE),
}


@pytest.mark.parametrize("name", BALANCED)
@settings(max_examples=30)
@given(
    placement=ruled_clusters(),
    order=st.permutations(EVENING),
    count=st.integers(0, len(EVENING)),
    loads=loads_drawn,
)
def test_each_way_to_balance_comes_to_rest_with_any_plugins(
    name: str, placement: ClusterPlacement, order: Sequence[str], count: int, loads: Sequence[int]
) -> None:
    placement = loaded(placement, loads)
    declared = profile(order[:count], BALANCED[name])
    for _ in range(40):
        plan, placement = plan_of(placement, declared)
        if not plan.moves:
            return
    raise AssertionError("the profile does not come to rest")
