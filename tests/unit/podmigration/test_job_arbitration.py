"""Arbitration: both forms agree, limits hold, the order is stable, and cases worked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from drawn_jobs import NOW_S, limits_drawn, snapshots
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.tiers import QoSClass
from slackwater.podmigration.arbitration import arbitrate_plainly
from slackwater.podmigration.batched import arbitrate
from slackwater.podmigration.budgets import DisruptionBudget, workload_budget
from slackwater.podmigration.job_order import in_rank_order
from slackwater.podmigration.limits import ArbitrationArgs, HoldFilter, JobHold, MigrationLimits, SkipGate
from slackwater.podmigration.rate import LimiterBucket, LimiterScope
from slackwater.podmigration.snapshot import (
    ActiveJob,
    MigrationPlan,
    MigrationSnapshot,
    WaitingJob,
    WorkloadReplicas,
)

few = settings(max_examples=40)


def waiting(identity: str, **others: object) -> WaitingJob:
    job = WaitingJob(identity, f"pod-of-{identity}", "ns", "", "", NOW_S - 5)
    return replace(job, **others)  # type: ignore[arg-type]


def active(identity: str, **others: object) -> ActiveJob:
    return replace(ActiveJob(identity, f"pod-of-{identity}", "ns", "", ""), **others)  # type: ignore[arg-type]


@given(snapshots())
def test_arrays_decide_as_the_plain_form(snapshot: MigrationSnapshot) -> None:
    assert arbitrate(snapshot, NOW_S) == arbitrate_plainly(snapshot, NOW_S)


@few
@given(snapshots(), st.integers(0, 3))
def test_plugins_decide_in_both_forms(snapshot: MigrationSnapshot, every: int) -> None:
    def reversed_order(jobs: object) -> list[WaitingJob]:
        return list(reversed(jobs))  # type: ignore[call-overload, no-any-return]

    def holds_some(jobs: object, _: MigrationSnapshot) -> dict[str, str]:
        return {job.id: "freeze" for job in jobs if int(job.id[4:]) % 4 == every}  # type: ignore[attr-defined]

    chosen = {"sorts": [reversed_order], "group_filters": [holds_some]}
    plan = arbitrate(snapshot, NOW_S, **chosen)  # type: ignore[arg-type]
    assert plan == arbitrate_plainly(snapshot, NOW_S, **chosen)  # type: ignore[arg-type]
    assert not {job for job in plan.admitted if int(job[4:]) % 4 == every}


@few
@given(snapshots())
def test_every_waiting_job_is_answered_once(snapshot: MigrationSnapshot) -> None:
    plan = arbitrate(snapshot, NOW_S)
    answered = [*plan.admitted, *plan.refused, *plan.holds]
    assert sorted(answered) == sorted(job.id for job in snapshot.waiting)


@few
@given(snapshots())
def test_no_limit_is_exceeded_by_an_admission(snapshot: MigrationSnapshot) -> None:
    admitted = _admitted(snapshot, arbitrate(snapshot, NOW_S))
    limits = snapshot.limits
    for gate, key in (
        (SkipGate.MAX_MIGRATING_PER_NODE, "node"),
        (SkipGate.MAX_MIGRATING_PER_NAMESPACE, "namespace"),
    ):
        limit = limits.of(gate)
        before = Counter(getattr(job, key) for job in snapshot.active)
        for name, count in Counter(getattr(job, key) for job in admitted).items():
            assert limit is None or not name or before[name] + count <= limit
    globally = limits.of(SkipGate.MAX_MIGRATING_GLOBALLY)
    assert globally is None or not admitted or len(snapshot.active) + len(admitted) <= globally
    pods = Counter(job.pod for job in (*snapshot.active, *admitted))
    assert all(pods[job.pod] == 1 for job in admitted)
    for name, workload in snapshot.workloads.items():
        own = [job for job in admitted if job.workload == name]
        lost = {job.replacement or job.pod for job in snapshot.active if job.workload == name}
        away = workload.unready | lost | {job.pod for job in own}
        allowed = workload_budget(workload.replicas, limits.max_unavailable_per_workload)
        if own and SkipGate.MAX_UNAVAILABLE_PER_WORKLOAD not in limits.skip_gates:
            assert len(away) <= allowed
    for name, budget in snapshot.budgets.items():
        own = [job for job in admitted if name in job.budgets]
        begun = [job for job in snapshot.active if name in job.budgets and not job.evicted]
        assert not own or len(own) + len(begun) <= budget.allowed


def _admitted(snapshot: MigrationSnapshot, plan: MigrationPlan) -> list[WaitingJob]:
    return [job for job in snapshot.waiting if job.id in set(plan.admitted)]


@few
@given(snapshots(), st.sampled_from(["globally", "per_node", "per_namespace"]), st.integers(1, 4), st.integers(1, 4))
def test_a_lower_limit_alone_lets_through_a_part_of_what_a_higher_one_does(
    snapshot: MigrationSnapshot, name: str, one: int, other: int
) -> None:
    gates = frozenset({SkipGate.MAX_MIGRATING_PER_WORKLOAD, SkipGate.MAX_UNAVAILABLE_PER_WORKLOAD})
    alone = MigrationLimits(max_migrating_per_node=None, skip_gates=gates, object_limiters={})
    waiting_jobs = [replace(job, budgets=()) for job in snapshot.waiting]
    low, high = (
        arbitrate(
            replace(
                snapshot,
                waiting=waiting_jobs,
                limits=replace(alone, **{f"max_migrating_{name}": limit}),  # type: ignore[arg-type]
                args=ArbitrationArgs(process_queue_qps=1000),
            ),
            NOW_S,
        )
        for limit in sorted((one, other))
    )
    assert set(low.admitted) <= set(high.admitted)


@few
@given(snapshots(), st.integers(0, 8), st.integers(0, 8))
def test_a_lower_selection_is_the_beginning_of_a_higher_one(snapshot: MigrationSnapshot, one: int, other: int) -> None:
    low, high = (
        arbitrate(replace(snapshot, args=ArbitrationArgs(True, 1.0, qps, 1.0)), NOW_S).admitted
        for qps in sorted((one, other))
    )
    assert high[: len(low)] == low


@few
@given(snapshots(), limits_drawn())
def test_what_a_plan_admits_the_next_round_does_not_admit_again(
    snapshot: MigrationSnapshot, limits: MigrationLimits
) -> None:
    first = arbitrate(snapshot, NOW_S)
    admitted = _admitted(snapshot, first)
    begun = [
        ActiveJob(job.id, job.pod, job.namespace, job.node, job.workload, job.batch_job, job.budgets)
        for job in admitted
    ]
    later = replace(snapshot, active=[*snapshot.active, *begun], limits=limits)
    assert not {job.pod for job in _admitted(snapshot, arbitrate(later, NOW_S))} & {job.pod for job in admitted}


@given(st.lists(st.integers(0, 2), max_size=12))
def test_equal_jobs_keep_their_order(priorities: list[int]) -> None:
    jobs = [waiting(f"{place}", pod_priority=priority) for place, priority in enumerate(priorities)]
    ordered = in_rank_order(jobs, (), NOW_S)
    assert [int(job.id) for job in ordered] == sorted(range(len(jobs)), key=lambda place: priorities[place])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"submitted_s": NOW_S - 1, "pod_priority": 9}, {"submitted_s": NOW_S - 3}),
        ({"pod_priority": 1}, {"pod_priority": 2, "batch_job": "moving"}),
        ({"batch_job": "moving"}, {"priority": 5}),
        ({"priority": 5, "qos": QoSClass.LSE}, {"priority": 4, "qos": QoSClass.BE}),
        ({"qos": QoSClass.BE}, {"qos": QoSClass.LS}),
        ({"qos": QoSClass.LS}, {"qos": QoSClass.LSR}),
    ],
)
def test_the_earlier_key_decides(first: dict[str, object], second: dict[str, object]) -> None:
    jobs = [waiting("second", **second), waiting("first", **first)]
    assert [job.id for job in in_rank_order(jobs, {"moving"}, NOW_S)] == ["first", "second"]


def test_lsr_and_lse_are_equal() -> None:
    jobs = [waiting("a", qos=QoSClass.LSE), waiting("b", qos=QoSClass.LSR), waiting("c", qos=QoSClass.LSE)]
    assert [job.id for job in in_rank_order(jobs, (), NOW_S)] == ["a", "b", "c"]


def test_members_of_a_batch_job_follow_the_best_of_them() -> None:
    jobs = [
        waiting("x", pod_priority=2),
        waiting("late", pod_priority=9, batch_job="j"),
        waiting("best", pod_priority=1, batch_job="j"),
    ]
    assert [job.id for job in in_rank_order(jobs, (), NOW_S)] == ["best", "late", "x"]


def test_a_job_held_elsewhere_keeps_no_place_of_its_workload() -> None:
    snapshot = MigrationSnapshot(
        [waiting("full-node", node="n1", workload="w"), waiting("free-node", node="n2", workload="w")],
        [active("x", node="n1")],
        {"w": WorkloadReplicas(3)},
        limits=MigrationLimits(max_migrating_per_node=1),
    )
    plan = arbitrate(snapshot, NOW_S)
    assert plan.admitted == ["free-node"]
    assert plan.holds["full-node"] == JobHold(HoldFilter.WORKLOAD_MIGRATING, "w", 1, 1, NOW_S)


def test_a_hold_lasts_since_the_same_filter_held_first() -> None:
    earlier = JobHold(HoldFilter.NODE, "n1", 2, 2, 100.0)
    held = waiting("a", node="n1", hold=earlier)
    limits = MigrationLimits(max_migrating_per_node=1)
    snapshot = MigrationSnapshot([held], [active("x", node="n1")], limits=limits)
    assert arbitrate(snapshot, NOW_S).holds["a"] == JobHold(HoldFilter.NODE, "n1", 1, 1, 100.0)
    moved = replace(snapshot, waiting=[replace(held, node="n2")], active=[active("x", node="n2")])
    assert arbitrate(moved, NOW_S).holds["a"].since_s == NOW_S
    assert arbitrate(snapshot, NOW_S).holds["a"].message == "held by node of n1: 1 of 1"


def test_an_unready_pod_may_move_where_a_ready_one_may_not() -> None:
    workloads = {"w": WorkloadReplicas(10, frozenset({"pod-of-broken"}))}
    limits = MigrationLimits(max_unavailable_per_workload=1, object_limiters={})
    jobs = [waiting("ready", workload="w"), waiting("broken", workload="w")]
    assert arbitrate(MigrationSnapshot(jobs, (), workloads, limits=limits), NOW_S).admitted == ["broken"]


def test_an_unready_pod_that_moves_counts_once() -> None:
    workloads = {"w": WorkloadReplicas(10, frozenset({"pod-of-broken"}))}
    limits = MigrationLimits(max_unavailable_per_workload=2, object_limiters={})
    jobs = [waiting("broken", workload="w"), waiting("ready", workload="w")]
    snapshot = MigrationSnapshot(jobs, (), workloads, limits=limits)
    assert arbitrate(snapshot, NOW_S).admitted == arbitrate_plainly(snapshot, NOW_S).admitted == ["broken", "ready"]


def test_a_workload_that_cannot_spare_a_replica_is_refused() -> None:
    snapshot = MigrationSnapshot([waiting("a", workload="w")], (), {"w": WorkloadReplicas(1)})
    assert arbitrate(snapshot, NOW_S).refused == ["a"]
    skipped = replace(snapshot, limits=MigrationLimits(skip_check_expected_replicas=True))
    assert arbitrate(skipped, NOW_S).admitted == ["a"]


def test_the_object_limiter_spreads_moves_over_its_window() -> None:
    jobs = [waiting(f"{number}", workload="w") for number in range(3)]
    snapshot = MigrationSnapshot(jobs, (), {"w": WorkloadReplicas(100)})
    first = arbitrate(snapshot, NOW_S)
    assert first.admitted == ["0"], "burst 1"
    assert first.holds["1"] == JobHold(HoldFilter.WORKLOAD_LIMITER, "w", 1, 1, NOW_S)
    left = replace(snapshot, waiting=jobs[1:], buckets=first.buckets)
    assert arbitrate(left, NOW_S + 29.9).admitted == []
    assert arbitrate(left, NOW_S + 30).admitted == ["1"], "10 per 300 s"
    assert first.buckets == {(LimiterScope.WORKLOAD, "w"): LimiterBucket(0.0, NOW_S)}


def test_select_leaves_the_rest_for_the_next_round() -> None:
    args = ArbitrationArgs(interval_s=1, process_queue_qps=2, job_select_ratio=1.2)
    snapshot = MigrationSnapshot([waiting(f"{number}") for number in range(5)], args=args, queued=1)
    plan = arbitrate(snapshot, NOW_S)
    assert plan.admitted == ["0", "1"], "3 = 2.4 rounded up, 1 still queued"
    assert plan.holds["2"] == JobHold(HoldFilter.SELECT, "", 2, 2, NOW_S)


@pytest.mark.parametrize("arbitrate", [arbitrate, arbitrate_plainly])
@pytest.mark.parametrize(("intervals", "starves"), [(10, False), (0, True)])
def test_a_job_behind_newer_ones_goes_first_once_it_is_overdue(
    arbitrate: Callable[[MigrationSnapshot, float], MigrationPlan], *, intervals: int, starves: bool
) -> None:
    """The first key of the proposal alone lets every newer job pass, whatever its priority."""
    args = ArbitrationArgs(interval_s=60.0, process_queue_qps=1 / 60, job_select_ratio=1.0, overdue_intervals=intervals)
    old, admitted = waiting("old", submitted_s=0.0, priority=1000), list[str]()
    for number in range(1, 31):
        now_s = 60.0 * number
        newer = waiting(f"n{number}", submitted_s=now_s - 1.0, pod_priority=-1)
        admitted += arbitrate(MigrationSnapshot([old, newer], args=args), now_s).admitted
        if "old" in admitted:
            break
    assert ("old" not in admitted) is starves
    assert starves or len(admitted) == 10


STREAMS: dict[str, tuple[dict[str, object], dict[str, object], MigrationLimits]] = {
    "newer ones of higher priority": ({}, {"priority": 1000}, MigrationLimits()),
    "newer members of a batch job that is moving": ({}, {"batch_job": "j", "pod_priority": -5}, MigrationLimits()),
    "newer ones of its node, which has one place": (
        {"node": "n"},
        {"node": "n"},
        MigrationLimits(max_migrating_per_node=1),
    ),
    "newer ones of its namespace": ({}, {"priority": 9}, MigrationLimits(max_migrating_per_namespace=1)),
    "newer ones of its workload, which spares one": (
        {"workload": "w"},
        {"workload": "w"},
        MigrationLimits(max_migrating_per_node=None),
    ),
    "newer ones under its budget, which allows one": (
        {"budgets": ("b",)},
        {"budgets": ("b",)},
        MigrationLimits(),
    ),
    "newer ones, its own batch job long gone": ({"batch_job": "gone"}, {"qos": QoSClass.BE}, MigrationLimits()),
}


@pytest.mark.parametrize("arbitrate", [arbitrate, arbitrate_plainly])
@pytest.mark.parametrize("name", STREAMS)
def test_no_stream_of_newer_jobs_keeps_one_waiting(
    arbitrate: Callable[[MigrationSnapshot, float], MigrationPlan], name: str
) -> None:
    """Three newer ones in each round, each round one place, which is free again in the next."""
    old_fields, newer_fields, limits = STREAMS[name]
    args = ArbitrationArgs(interval_s=60.0, process_queue_qps=1 / 60, job_select_ratio=1.0, overdue_intervals=10)
    old, left = waiting("old", **{"submitted_s": 0.0, "pod_priority": 9, **old_fields}), list[WaitingJob]()
    for number in range(1, 15):
        now_s = 60.0 * number
        newer = [waiting(f"n{number}-{place}", submitted_s=now_s - 1.0 - place, **newer_fields) for place in range(3)]
        left += newer
        snapshot = MigrationSnapshot(
            [old, *left],
            [active("moving", namespace="other", batch_job="j")],
            workloads={"w": WorkloadReplicas(40)},
            budgets={"b": DisruptionBudget("b", 5, 5, max_unavailable=1)},
            limits=replace(limits, object_limiters={}),
            args=args,
        )
        admitted = arbitrate(snapshot, now_s).admitted
        left = [job for job in left if job.id not in admitted]
        if "old" in admitted:
            assert number <= 11
            return
    raise AssertionError("it is never admitted")


PLACES: dict[str, tuple[dict[str, object], list[dict[str, object]], MigrationLimits]] = {
    "of its node and of its workload": (
        {"node": "n", "workload": "w"},
        [{"node": "n", "workload": "x"}, {"node": "m", "workload": "w"}],
        MigrationLimits(max_migrating_per_node=1, max_migrating_per_workload=1),
    ),
    "of its node and under its budget": (
        {"node": "n", "budgets": ("b",)},
        [{"node": "n"}, {"node": "m", "budgets": ("b",)}],
        MigrationLimits(max_migrating_per_node=1),
    ),
    "of its namespace, its node and its workload": (
        {"namespace": "a", "node": "n", "workload": "w"},
        [{"namespace": "a"}, {"node": "n", "namespace": "b"}, {"workload": "w", "namespace": "c"}],
        MigrationLimits(max_migrating_per_node=1, max_migrating_per_namespace=1, max_migrating_per_workload=1),
    ),
}


@pytest.mark.parametrize("arbitrate", [arbitrate, arbitrate_plainly])
@pytest.mark.parametrize("name", PLACES)
def test_a_job_that_needs_two_places_at_once_is_not_kept_waiting_by_streams_that_free_them_in_turn(
    arbitrate: Callable[[MigrationSnapshot, float], MigrationPlan], name: str
) -> None:
    """Each move lasts as many rounds as there are streams, and ends while those of the others go on."""
    old_fields, streams, limits = PLACES[name]
    args = ArbitrationArgs(interval_s=60.0, process_queue_qps=1.0, job_select_ratio=1.0, overdue_intervals=10)
    old = waiting("old", **{"submitted_s": 0.0, **old_fields})
    moving: dict[str, tuple[WaitingJob, int]] = {}
    for number in range(1, 31):
        now_s = 60.0 * number
        moving = {key: (job, end) for key, (job, end) in moving.items() if end > number}
        newer = [
            waiting(f"n{number}-{place}", submitted_s=now_s - 1.0, **fields) for place, fields in enumerate(streams)
        ]
        snapshot = MigrationSnapshot(
            [old, *newer],
            [
                active(
                    key, pod=job.pod, node=job.node, workload=job.workload, namespace=job.namespace, budgets=job.budgets
                )
                for key, (job, _) in moving.items()
            ],
            workloads={"w": WorkloadReplicas(40), "x": WorkloadReplicas(40)},
            budgets={"b": DisruptionBudget("b", 5, 5, max_unavailable=1)},
            limits=replace(limits, object_limiters={}),
            args=args,
        )
        admitted = arbitrate(snapshot, now_s).admitted
        if "old" in admitted:
            assert number <= 10 + len(streams)
            return
        for place, job in enumerate(newer):
            if job.id in admitted:
                first_end = number + 1 + place
                moving[job.id] = (job, first_end if number == 1 else number + len(streams))
    raise AssertionError("it is never admitted")


def test_places_are_not_kept_for_a_job_that_something_else_holds() -> None:
    old = waiting("old", submitted_s=0.0, node="n", workload="w", paused=True)
    budgeted = waiting("budgeted", submitted_s=0.0, node="n", budgets=("b",))
    newer = waiting("newer", node="n")
    snapshot = MigrationSnapshot(
        [old, budgeted, newer],
        workloads={"w": WorkloadReplicas(40)},
        budgets={"b": DisruptionBudget("b", 5, 4, max_unavailable=1)},
        limits=MigrationLimits(max_migrating_per_node=1, object_limiters={}),
    )
    assert arbitrate(snapshot, NOW_S).admitted == ["newer"]
