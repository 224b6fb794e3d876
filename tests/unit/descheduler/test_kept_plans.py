"""Plans that are kept: feasible on a snapshot or not, stale or not, and what their moves gained."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.descheduler.domain.kept_plans import (
    APPLICABLE_S,
    KeptPlan,
    KeptStep,
    PlanState,
    accepted_steps,
    applied,
    asked,
    check_steps,
    part_of,
    plan_changes,
    plan_id,
)
from slackwater.descheduler.domain.move_jobs import JobState
from slackwater.descheduler.domain.plan_gain import (
    SETTLE_S,
    GainResult,
    imbalance,
    imbalances_of,
    is_measurable,
    measured,
    node_loads,
    result_of,
)
from slackwater.descheduler.domain.plan_replay import plan_document, plan_from, replay_application
from slackwater.descheduling.placement import (
    EXPECTED,
    PODS,
    ClusterPlacement,
    EvictionProposal,
    LoadBasis,
    LoadSource,
    PlacedPod,
    PlacementNode,
)
from slackwater.descheduling.placement_document import placement_document
from slackwater.descheduling.placer import step_loads
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.descheduling.profile_cycle import PlannedMove

PROFILE = DeclaredProfile("p", 3)
MADE = 1000.0


def node(name: str, **fields: object) -> PlacementNode:
    return PlacementNode(name, {"cpu": 1000, "memory": 1000, PODS: 10}, **fields)  # type: ignore[arg-type]


def pod(uid: str, where: str, load: int, **fields: object) -> PlacedPod:
    amounts = {"cpu": load, "memory": load}
    return PlacedPod(uid, uid, "ns", where, workload=f"w-{uid}", requests={"cpu": load}, usage=amounts, **fields)  # type: ignore[arg-type]


def cluster(*pods: PlacedPod, nodes: tuple[PlacementNode, ...] = (node("a"), node("b"), node("c"))) -> ClusterPlacement:
    return ClusterPlacement(nodes, {each.name: [one for one in pods if one.node == each.name] for each in nodes})


BASES = (
    EXPECTED,
    LoadBasis(LoadSource.MEASURED, {"cpu": 1.0}),
    LoadBasis(LoadSource.PREDICTED, {"cpu": 1.0, "memory": 3.0}),
    LoadBasis(LoadSource.MEASURED, {PODS: 1.0, "memory": 1.0}),
)


def plan_of(
    found: ClusterPlacement, *moves: tuple[str, str], generation: int = 3, basis: LoadBasis = EXPECTED
) -> KeptPlan:
    """A plan of these moves (pod, target) on a snapshot, made at MADE."""
    pods = {one.uid: one for placed in found.pods.values() for one in placed}
    proposals = [EvictionProposal(pods[uid], target, "x", "hot") for uid, target in moves]
    steps = [
        KeptStep(each.pod.uid, each.pod.name, "ns", each.pod.workload, each.pod.node, each.target, "x", "hot", 0, loads)
        for each, loads in zip(proposals, step_loads(found, proposals, basis), strict=True)
    ]
    return KeptPlan("id", "p", generation, MADE, len(found.nodes), len(pods), tuple(steps), basis=basis)


HOT = cluster(pod("u", "a", 400), pod("v", "a", 400), pod("w", "b", 100))


def changes(plan: KeptPlan, now: ClusterPlacement, **fields: object) -> list[str]:
    given = {"profile": PROFILE, "moves": {}, "now_s": MADE + 60, **fields}
    return plan_changes(plan, cluster=now, **given)  # type: ignore[arg-type]


def test_a_plan_holds_on_the_snapshot_that_it_was_made_on() -> None:
    plan = plan_of(HOT, ("u", "c"), ("v", "b"))
    assert changes(plan, HOT) == []
    checks = check_steps(plan.steps, HOT, PROFILE.margin)
    assert [check.loads for check in checks] == [step.loads for step in plan.steps]
    assert plan.expected_gain == pytest.approx((0.4 + -0.1) / 2)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (cluster(pod("v", "a", 400)), "step 1, ns/u: the pod does not run on a any more"),
        (cluster(pod("u", "b", 400)), "step 1, ns/u: the pod runs on b now"),
        (cluster(pod("u", "a", 400, terminating=True)), "step 1, ns/u: the pod is terminating, or its move is pending"),
        (cluster(pod("u", "a", 400), nodes=(node("a"),)), "step 1, ns/u: c is gone, or not one of the profile's nodes"),
        (
            cluster(pod("u", "a", 400), nodes=(node("a"), node("c", unschedulable=True))),
            "step 1, ns/u: c takes no new pods",
        ),
        (cluster(pod("u", "a", 400), pod("x", "c", 700)), "step 1, ns/u: c has no room for the requests of the pod"),
        (
            cluster(pod("u", "a", 400), replace(pod("x", "c", 700), requests={})),
            "step 1, ns/u: c would be loaded to 110%",
        ),
        (
            cluster(pod("u", "a", 400), pod("v", "a", 200)),
            "step 1, ns/u: its gain fell from 40.0% to 20.0%",
        ),
    ],
)
def test_a_plan_is_stale_if_the_cluster_changed_against_it(now: ClusterPlacement, said: str) -> None:
    assert changes(plan_of(HOT, ("u", "c")), now) == [said]


def test_a_plan_is_stale_with_its_profile_its_age_and_moves_since() -> None:
    plan = plan_of(HOT, ("u", "c"))
    assert changes(plan, HOT, profile=None) == ["the profile p does not exist any more"]
    assert changes(plan, HOT, profile=replace(PROFILE, generation=4)) == ["the profile p is in generation 4, not 3"]
    late = MADE + APPLICABLE_S + 60
    assert changes(plan, HOT, now_s=late) == ["the plan is 61 min old, and may be applied for 60 min"]
    assert changes(plan, HOT, moves={"w-u": [MADE - 1]}) == []
    assert changes(plan, HOT, moves={"w-u": [MADE + 1]}) == ["step 1, ns/u: a pod of w-u was moved since"]


def test_a_cluster_that_changed_in_favour_of_a_plan_does_not_make_it_stale() -> None:
    hotter = cluster(pod("u", "a", 400), pod("v", "a", 500))
    assert changes(plan_of(HOT, ("u", "c")), hotter) == []


loads = st.lists(st.integers(0, 500), min_size=1, max_size=8)


@settings(max_examples=25)
@given(data=st.data(), before=loads, after=loads)
def test_the_part_of_the_cluster_in_a_record_decides_as_the_whole(
    data: st.DataObject, before: list[int], after: list[int]
) -> None:
    places = st.sampled_from(["a", "b", "c", "d"])
    nodes = tuple(node(name) for name in "abcd")
    then = cluster(*(pod(f"u{n}", data.draw(places), load) for n, load in enumerate(before)), nodes=nodes)
    now = cluster(*(pod(f"u{n}", data.draw(places), load) for n, load in enumerate(after)), nodes=nodes)
    plan = plan_of(then, *((f"u{n}", data.draw(places)) for n in range(len(before))))
    plan = replace(plan, steps=accepted_steps(plan.steps, then))
    assert changes(plan, then) == [], "a plan holds on its own snapshot, whatever its plugins decided"
    whole, part = changes(plan, now), part_of(now, plan.steps)
    assert changes(plan, part) == whole
    document = json.loads(json.dumps(placement_document(part)))
    assert [len(check.changes) for check in check_steps(plan.steps, now, PROFILE.margin)] == [
        len(check.changes) for check in check_steps(plan.steps, part, PROFILE.margin)
    ]
    assert replay_application(plan_document(plan), None, document, {}, MADE) == 0, "its profile is gone"
    for basis in BASES:
        plan = replace(plan, basis=basis)
        assert plan_from(json.loads(json.dumps(plan_document(plan)))) == plan


def test_a_plan_is_asked_for_and_applied_once() -> None:
    plan = asked(plan_of(HOT, ("u", "c")))
    assert plan.state is PlanState.APPLYING
    done = applied(plan, ["job"], "d", 5.0, 300.0)
    assert (done.state, done.steps[0].job, done.measure_by_s) == (PlanState.APPLIED, "job", 1205.0)
    assert asked(done) == done


def ended(phase: str = "Succeeded", replacement: str = "u2", target: str = "c", at_s: float = 50.0) -> JobState:
    return JobState(phase, "ended", "moved", target, replacement, at_s)


def test_the_gain_is_measured_on_the_node_of_the_new_pod_once_nodes_have_settled() -> None:
    plan = applied(plan_of(HOT, ("u", "c"), ("v", "b")), ["j1", "j2"], "d", 0.0, 300.0)
    after = cluster(pod("u2", "b", 300), pod("w", "b", 100), pod("v", "a", 400))
    jobs = {"j1": ended(), "j2": ended(phase="Failed", replacement="", at_s=60.0)}
    assert not is_measurable(plan, {"j1": jobs["j1"]}, 60.0 + SETTLE_S)
    assert not is_measurable(plan, jobs, 59.0 + SETTLE_S)
    assert is_measurable(plan, jobs, 60.0 + SETTLE_S)
    assert is_measurable(plan, {}, 1200.0), "what has not ended then is not waited for"
    found = measured(plan, jobs, after, 120.0)
    assert [step.gain for step in found.steps] == [pytest.approx(0.8 - 0.4), None]
    assert found.measured_gain == pytest.approx(0.4)
    assert found.state is PlanState.MEASURED
    assert [step.phase for step in found.steps] == ["Succeeded", "Failed"]
    assert found.imbalance_measured == imbalance(after, EXPECTED)
    assert not is_measurable(found, jobs, 1e9)


@pytest.mark.parametrize(
    ("gain", "result"),
    [
        (None, "unknown"),
        (0.4, "as_expected"),
        (0.5, "as_expected"),
        (0.36, "as_expected"),
        (0.3, "less"),
        (0.0, "worse"),
    ],
)
def test_a_measured_gain_is_judged_beside_the_expected_one(gain: float | None, result: str) -> None:
    step = replace(plan_of(HOT, ("u", "c")).steps[0], gain=gain)
    assert result_of(step) is GainResult(result)


@settings(max_examples=25)
@given(pods=loads, data=st.data(), basis=st.sampled_from(BASES))
def test_moves_as_planned_gain_what_was_expected(pods: list[int], data: st.DataObject, basis: LoadBasis) -> None:
    """The measured figure is the expected one: with all pods on their targets and nothing else changed they are equal,
    and so is the imbalance."""
    peaks = st.sampled_from([None, {"cpu": 300, "memory": 10}])
    then = cluster(
        *(pod(f"u{n}", data.draw(st.sampled_from("abc")), load, peak=data.draw(peaks)) for n, load in enumerate(pods))
    )
    chosen = data.draw(st.lists(st.sampled_from(range(len(pods))), unique=True, min_size=1))
    moves = [(f"u{n}", data.draw(st.sampled_from("abc"))) for n in chosen]
    plan = applied(plan_of(then, *moves, basis=basis), [f"j-{uid}" for uid, _ in moves], "d", 0.0, 300.0)
    running = {one.uid: one for placed in then.pods.values() for one in placed}
    planned = [PlannedMove(running[uid], target, "x", "hot") for uid, target in moves]
    for uid, target in moves:
        running[uid] = replace(running[uid], uid=f"new-{uid}", node=target)
    after = cluster(*running.values())
    found = measured(plan, {f"j-{uid}": ended(replacement=f"new-{uid}", target=to) for uid, to in moves}, after, 120.0)
    assert [step.gain for step in found.steps] == pytest.approx([step.expected_gain for step in found.steps])
    assert imbalances_of(then, planned, basis) == pytest.approx((imbalance(then, basis), imbalance(after, basis)))
    assert found.imbalance_measured == pytest.approx(imbalance(after, basis))
    assert set(node_loads(then, basis)) == set("abc")


def test_the_same_moves_have_the_same_id() -> None:
    moves = [PlannedMove(pod("u", "a", 1), "b", "x", "r")]
    assert plan_id("p", 1, moves) == plan_id("p", 1, moves)
    assert (
        len({plan_id("p", 1, moves), plan_id("p", 2, moves), plan_id("p", 1, moves, "|1"), plan_id("q", 1, moves)}) == 4
    )
