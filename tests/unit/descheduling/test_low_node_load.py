"""LowNodeLoad: it comes to rest, makes no target hot, respects the gate, and acts only on lasting overload."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from drawn_cluster import after_moves, cluster, clusters, node, pod
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.descheduling.anomaly import AnomalyCondition
from slackwater.descheduling.builtin import DefaultEvictor, LowNodeLoad
from slackwater.descheduling.cycle import CycleGate, CycleLimits, run_cycle
from slackwater.descheduling.evictability import EvictorSettings, protection
from slackwater.descheduling.low_node_load import (
    LowNodeLoadArgs,
    LowNodeLoadPlan,
    LowNodeLoadPool,
    RoundEnd,
    argument_problems,
    balance,
)
from slackwater.descheduling.move_history import RestRules
from slackwater.descheduling.node_classes import SOURCES, NodeClass, NodeLoad, node_loads
from slackwater.descheduling.placement import PODS, ClusterPlacement, LoadSource, admits, free_for_requests
from slackwater.descheduling.thresholds import ThresholdPair
from slackwater.model.placement_rules import NodeTaint, PodToleration
from slackwater.model.tiers import Tier
from slackwater.resources.selectors import Selector

POOL = LowNodeLoadPool("all", {"cpu": 40, "memory": 60}, {"cpu": 60, "memory": 80})
CPU_POOL = LowNodeLoadPool("cpu", {"cpu": 40}, {"cpu": 65})
ARGS = LowNodeLoadArgs([POOL], anomaly=None, margin=0.0)
NO_REST = RestRules(rest_s=0.0, loop_moves=2**31)


def gate(limits: CycleLimits = CycleLimits(), rules: RestRules = NO_REST) -> CycleGate:  # noqa: B008
    return CycleGate([DefaultEvictor(EvictorSettings())], limits, {}, rules, {}, 0.0)


def plan_of(placement: ClusterPlacement, args: LowNodeLoadArgs = ARGS, **limits: int) -> LowNodeLoadPlan:
    return balance(placement, args, {}, 0.0, gate(CycleLimits(**limits)))


def loads(placement: ClusterPlacement, pool: LowNodeLoadPool) -> dict[str, NodeLoad]:
    found = node_loads(
        placement.nodes,
        placement.pods,
        ThresholdPair(pool.low, pool.high),
        ThresholdPair(pool.prod_low, pool.prod_high),
        use_deviation=pool.use_deviation,
        source=LoadSource.MEASURED,
    )
    return {load.node.name: load for load in found}


pools = st.builds(
    lambda low, prod, with_prod, deviation: LowNodeLoadPool(
        "all",
        {"cpu": low, "memory": 50},
        {"cpu": low + 20, "memory": 70},
        {"cpu": prod} if with_prod else {},
        {"cpu": prod + 10} if with_prod else {},
        use_deviation=deviation,
    ),
    st.integers(10, 60),
    st.integers(5, 40),
    st.booleans(),
    st.just(False),
)
arguments = st.builds(
    lambda pool, fit, margin: LowNodeLoadArgs([pool], node_fit=fit, anomaly=None, margin=margin),
    pools,
    st.booleans(),
    st.sampled_from([0.0, 0.05, 0.3]),
)


def excess(placement: ClusterPlacement, pool: LowNodeLoadPool) -> int:
    """The sum of what is above the thresholds, of all nodes and of prod."""
    return sum(
        max(usage.get(name, 0) - limit, 0)
        for load in loads(placement, pool).values()
        for usage, high in ((load.usage, load.high), (load.prod, load.prod_high))
        for name, limit in high.items()
    )


@given(clusters, arguments)
def test_the_cluster_comes_to_rest(placement: ClusterPlacement, args: LowNodeLoadArgs) -> None:
    """Each round with a move lowers what is above the thresholds, and the last one proposes nothing."""
    for _ in range(60):
        plan = plan_of(placement, args)
        if not plan.proposals:
            return
        following = after_moves(placement, plan.proposals)
        assert excess(following, args.pools[0]) < excess(placement, args.pools[0])
        placement = following
    pytest.fail("still moving")


@given(clusters, arguments)
def test_no_target_becomes_hot_and_no_source_is_emptied_for_nothing(
    placement: ClusterPlacement, args: LowNodeLoadArgs
) -> None:
    pool = args.pools[0]
    before, plan = loads(placement, pool), plan_of(placement, args)
    after = loads(after_moves(placement, plan.proposals), pool)
    for proposal in plan.proposals:
        assert plan.classes[proposal.pod.node] in SOURCES
        target = after[proposal.target]
        assert all(target.usage[name] <= limit for name, limit in target.high.items())
    for name in {proposal.pod.node for proposal in plan.proposals}:
        last = [proposal.pod for proposal in plan.proposals if proposal.pod.node == name][-1]
        limits = before[name].high if plan.classes[name] is NodeClass.HIGH else before[name].prod_high
        left = after[name].usage if plan.classes[name] is NodeClass.HIGH else after[name].prod
        with_last = {key: left[key] + (1 if key == PODS else (last.usage or {}).get(key, 0)) for key in left}
        assert any(with_last[key] > limit for key, limit in limits.items()), "one pod too many"


@given(clusters, arguments)
def test_what_is_proposed_may_be_moved_and_fits(placement: ClusterPlacement, args: LowNodeLoadArgs) -> None:
    plan = plan_of(placement, args)
    nodes = {each.name: each for each in placement.nodes}
    asked: Counter[str] = Counter()
    for proposal in plan.proposals:
        assert protection(proposal.pod, EvictorSettings()) is None
        asked[proposal.target] += proposal.pod.requests.get("cpu", 0)
        if args.node_fit:
            target = nodes[proposal.target]
            assert admits(target, proposal.pod)
            assert asked[proposal.target] <= free_for_requests(target, placement.pods[target.name])["cpu"]
    assert len({proposal.pod.uid for proposal in plan.proposals}) == len(plan.proposals)


@given(clusters, arguments, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_limits_of_a_cycle_hold(
    placement: ClusterPlacement, args: LowNodeLoadArgs, total: int, per_node: int, per_namespace: int
) -> None:
    plan = plan_of(placement, args, total=total, per_node=per_node, per_namespace=per_namespace)
    assert len(plan.proposals) <= min(total, per_namespace)
    assert all(count <= per_node for count in Counter(each.pod.node for each in plan.proposals).values())


@settings(max_examples=50)
@given(clusters, st.integers(1, 5))
def test_the_order_of_nodes_and_pods_decides_no_class(placement: ClusterPlacement, seed: int) -> None:
    nodes = [*placement.nodes[seed:], *placement.nodes[:seed]]
    turned = ClusterPlacement(nodes, {name: list(reversed(pods)) for name, pods in placement.pods.items()})
    assert plan_of(turned).classes == plan_of(placement).classes


@settings(max_examples=30)
@given(clusters, arguments)
def test_a_moved_workload_rests_and_a_loop_ends(placement: ClusterPlacement, args: LowNodeLoadArgs) -> None:
    """Although the load never changes: no workload is moved in its rest, or more than three times a day."""
    moves: dict[str, list[float]] = {}
    rules, history, now_s = RestRules(rest_s=600.0), {}, 0.0
    for _ in range(8):
        plugins = [DefaultEvictor(EvictorSettings()), LowNodeLoad(args, {})]
        plan = run_cycle(placement, plugins, now_s, moves=history, rules=rules)
        history = dict(plan.moves)
        for proposal in plan.proposals:
            times = moves.setdefault(proposal.pod.workload, [])
            assert not times or now_s - times[-1] >= 600
            times.append(now_s)
            assert len(times) <= 3
        now_s += 300


def test_a_workload_that_is_hot_wherever_it_goes_is_moved_three_times() -> None:
    alone = [pod("p0", usage={"cpu": 620}), *(pod(f"d{number}", owner_kinds=("DaemonSet",)) for number in range(2))]
    history, moved = {}, 0
    for cycle in range(10):
        plugins = [DefaultEvictor(EvictorSettings()), LowNodeLoad(replace(ARGS, pools=[CPU_POOL]), {})]
        plan = run_cycle(cluster([node("n0"), node("n1")], alone), plugins, 3600.0 * cycle, moves=history)
        history, moved = dict(plan.moves), moved + len(plan.proposals)
    assert moved == 3


def hot_cluster(**of_second: object) -> ClusterPlacement:
    return cluster([node("n0"), node("n1", **of_second)], [pod(f"p{number}") for number in range(8)])


def test_it_stops_as_soon_as_the_node_is_under_its_threshold() -> None:
    plan = plan_of(hot_cluster())
    assert [proposal.pod.name for proposal in plan.proposals] == ["p0", "p1"]
    assert plan.proposals[0].target == "n1"
    assert plan.proposals[0].reason == "node is overutilized, node cpu usage(80.00%)>threshold(60.00%)"
    assert plan.ends == {"all": RoundEnd.DONE}


def test_requests_are_reserved_on_the_target_too() -> None:
    asking = [replace(each, requests={"cpu": 600}) for each in hot_cluster().pods["n0"]]
    placement = cluster(hot_cluster().nodes, asking)
    assert len(plan_of(placement).proposals) == 1
    assert len(plan_of(placement, replace(ARGS, node_fit=False)).proposals) == 2


def test_headroom_of_prod_is_reserved_too() -> None:
    prod = [replace(each, tier=Tier.PROD) for each in hot_cluster().pods["n0"]]
    pool = LowNodeLoadPool("prod", {"cpu": 50}, {"cpu": 90}, {"cpu": 20}, {"cpu": 30})
    plan = plan_of(cluster(hot_cluster().nodes, prod), replace(ARGS, pools=[pool]))
    assert len(plan.proposals) == 3, "of the five that n0 is above its threshold by"


def test_only_lasting_overload_counts() -> None:
    args = replace(ARGS, anomaly=AnomalyCondition(consecutive_abnormalities=2))
    detectors, proposed = {}, []
    placement = hot_cluster()
    for cycle in range(3):
        plan = balance(placement, args, detectors, 10.0 * cycle, gate())
        detectors = dict(plan.detectors)
        proposed.append(len(plan.proposals))
        ends = plan.ends["all"]
        assert ends is (RoundEnd.DONE if cycle == 2 else RoundEnd.NOT_ANOMALOUS)
    assert proposed == [0, 0, 2]
    calm = balance(cluster(placement.nodes, []), args, detectors, 30.0, gate())
    assert not calm.detectors, "one normal round ends the count"
    late = balance(placement, args, {"n0": detectors["n0"]}, 1000.0, gate())
    assert late.detectors["n0"].abnormalities == 1, "nor does a count outlive its cache"


def test_the_margin_keeps_small_gains_from_moving_pods() -> None:
    other = [pod(f"q{number}", "n1") for number in range(4)]
    placement = cluster(hot_cluster().nodes, [*(pod(f"p{number}") for number in range(7)), *other])
    pool = LowNodeLoadPool("all", {"cpu": 45}, {"cpu": 65})
    assert len(plan_of(placement, LowNodeLoadArgs([pool], anomaly=None, margin=0.0)).proposals) == 1
    assert len(plan_of(placement, LowNodeLoadArgs([pool], anomaly=None, margin=0.05)).proposals) == 1
    assert not plan_of(placement, LowNodeLoadArgs([pool], anomaly=None, margin=0.2)).proposals


@pytest.mark.parametrize(
    ("of_second", "end"),
    [
        ({"unschedulable": True}, RoundEnd.NO_TARGET),
        ({"taints": (NodeTaint("gpu"),)}, RoundEnd.NO_FIT),
        ({"measured_s": -1000.0}, RoundEnd.NO_TARGET),
    ],
)
def test_a_node_that_takes_no_pods_is_no_target(of_second: dict[str, object], end: RoundEnd) -> None:
    plan = plan_of(hot_cluster(**of_second))
    assert not plan.proposals
    assert plan.ends["all"] is end


def test_a_toleration_opens_a_tainted_node() -> None:
    placement = hot_cluster(taints=(NodeTaint("gpu", "yes"),))
    tolerant = [replace(each, tolerations=(PodToleration("gpu", "yes"),)) for each in placement.pods["n0"]]
    assert len(plan_of(cluster(placement.nodes, tolerant)).proposals) == 2


def test_too_few_low_nodes_and_no_hot_ones_end_a_round() -> None:
    assert plan_of(hot_cluster(), replace(ARGS, number_of_nodes=1)).ends["all"] is RoundEnd.FEW_LOW_NODES
    assert plan_of(cluster([node("n0"), node("n1")], [])).ends["all"] is RoundEnd.NO_SOURCE


def test_predicted_peaks_are_balanced_where_the_profile_asks_for_them() -> None:
    calm = [pod(f"p{number}", peak={"cpu": 100}, usage={"cpu": 1}) for number in range(8)]
    placement = cluster([node("n0"), node("n1")], calm)
    assert not plan_of(placement).proposals
    assert len(plan_of(placement, replace(ARGS, load=LoadSource.PREDICTED)).proposals) == 2


def test_a_drained_node_is_left_to_the_pool_that_drained_it() -> None:
    first = replace(POOL, name="first", selector=Selector({"zone": "a"}))
    second = replace(POOL, name="second", selector=Selector({"zone": "a"}), high={"cpu": 10}, low={"cpu": 5})
    nodes = [node("n0", labels={"zone": "a"}), node("n1", labels={"zone": "a"})]
    plan = plan_of(cluster(nodes, hot_cluster().pods["n0"]), replace(ARGS, pools=[first, second]))
    assert len(plan.proposals) == 2
    assert plan.ends == {"first": RoundEnd.DONE, "second": RoundEnd.NO_SOURCE}


def test_arguments_are_checked() -> None:
    assert argument_problems(ARGS) == []
    wrong = replace(ARGS, pools=[LowNodeLoadPool("p", {"cpu": 50}, {"cpu": 40})], number_of_nodes=-1)
    assert argument_problems(wrong) == [
        "numberOfNodes: must not be negative",
        "p.lowThresholds.cpu: must not be above highThresholds",
    ]
