"""Suites of koord_descheduler.json on migration: budgets, orders, limits, arbitration, the life of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import koord_load_rounds
import koord_low_node_load
import koord_move_entry
from shapes import bounded
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.descheduling.evictability import NEVER_COST, eviction_cost
from slackwater.podmigration.arbitration import arbitrate_plainly
from slackwater.podmigration.budgets import workload_budget
from slackwater.podmigration.job_order import in_rank_order, pulled_together
from slackwater.podmigration.jobs import MigrationCondition, MigrationJob, MigrationReason
from slackwater.podmigration.lifecycle import (
    EvictionAnswer,
    MoveView,
    OldPod,
    Replacement,
    ReservationState,
    admit,
    desired_state,
    settle,
    start,
)
from slackwater.podmigration.limits import MigrationLimits, SkipGate
from slackwater.podmigration.occupancy import MigrationOccupancy, is_refused
from slackwater.podmigration.rate import LimiterBucket, LimiterScope, ObjectLimiter
from slackwater.podmigration.snapshot import ActiveJob, MigrationSnapshot, WaitingJob, WorkloadReplicas

_CANDIDATE = WaitingJob("candidate", "pod", "ns", "node", "w", 0.0)
_UNLIMITED = MigrationLimits(max_migrating_per_node=None, object_limiters={})
_GONE = MoveView(pod=OldPod.GONE)
_WORKLOAD_GATES = frozenset({SkipGate.MAX_MIGRATING_PER_WORKLOAD, SkipGate.MAX_UNAVAILABLE_PER_WORKLOAD})


def budget(case: Case) -> Verdict:
    return compare(workload_budget(case["in"]["replicas"], case["in"]["value"]), wanted(case))


def cost_gate(case: Case) -> Verdict:
    annotation = case["in"]["annotation"]
    return compare(eviction_cost(annotation or "") != NEVER_COST, wanted(case))


def cost_parse(case: Case) -> Verdict:
    return compare(eviction_cost(case["in"]["annotation"]), wanted(case))


def sort_by_rank(case: Case) -> Verdict:
    """The rank of a pod is its priority here. A job without its pod ends before a round, so it has no place in one."""
    ranks = dict(enumerate(case["in"]["pod_rank"]))
    jobs = [
        replace(_CANDIDATE, id=str(job), pod_priority=rank)
        for job, rank in ranks.items()
        if rank is not None or _after(MigrationJob("job", "pod", "node", 0.0), _GONE).outcome is None
    ]
    ordered, want = _ranked(jobs, ()), wanted(case)
    if len(jobs) < len(ranks) and ordered == [job for job in want if ranks[job] is not None]:
        return differ("gone-pod-ends-its-move")
    return compare(ordered, want)


def sort_by_creation(case: Case) -> Verdict:
    created = case["in"]["created_unix"]
    jobs = [replace(_CANDIDATE, id=str(job), submitted_s=float(at_s)) for job, at_s in enumerate(created)]
    return compare(_ranked(jobs, (), max(created, default=0) + 1.0), wanted(case))


def _ranked(jobs: Sequence[WaitingJob], migrating: Sequence[str], now_s: float = 0.0) -> list[int]:
    return [int(job.id) for job in in_rank_order(jobs, migrating, now_s)]


def _owners(given: Mapping[str, Any]) -> list[str | None]:
    return [given["owner_batch_job"].get(str(job)) for job in range(bounded(given["jobs"]))]


def sort_by_controller(case: Case) -> Verdict:
    owners = _owners(case["in"])
    return compare(pulled_together(range(len(owners)), owners), wanted(case))


def sort_by_migrating(case: Case) -> Verdict:
    """The proposal's key is whether any member of the job migrates; the code's is how many."""
    given = case["in"]
    counts = Counter({**given["running_jobs_per_owner"]}) + Counter({**given["passed_pending_per_owner"]})
    jobs = [replace(_CANDIDATE, id=str(job), batch_job=owner or "") for job, owner in enumerate(_owners(given))]
    ranked = _ranked(jobs, [name for name, count in counts.items() if count])
    by_count = sorted(range(len(jobs)), key=lambda job: -counts[jobs[job].batch_job])
    if ranked != wanted(case) and by_count == wanted(case):
        return differ("any-member-migrates")
    return compare(ranked, wanted(case))


def migrating_count(case: Case) -> Verdict:
    given = case["in"]
    active = _others(given["running"] + given["pending_passed"], workload="w")
    waiting = [replace(_CANDIDATE, id=str(job), pod=str(job)) for job in range(bounded(given["waiting"]))]
    occupancy = MigrationOccupancy(MigrationSnapshot(waiting, active, {"w": WorkloadReplicas(9)}), 0.0)
    return compare(occupancy.workloads["w"], wanted(case))


def sort_pipeline(case: Case) -> Verdict:
    given = case["in"]
    keys = {"name": lambda job: job.id, "last_char_of_name": lambda job: job.id[-1]}
    jobs = [replace(_CANDIDATE, id=f"test-job-{number + 1}") for number in range(bounded(given["pods"]))]
    sorts = [lambda each, key=keys[name]: sorted(each, key=key) for name in given["sorts"]]
    return compare([job.id for job in in_rank_order(jobs, (), 0.0, sorts)], wanted(case))


def _gates(given: Mapping[str, Any]) -> frozenset[SkipGate]:
    return frozenset(SkipGate(name) for name in given.get("skip_gates", ()))


def _others(count: int, **places: str) -> list[ActiveJob]:
    return [
        ActiveJob(
            f"active-{number}-{places}",
            f"other-{number}-{places}",
            places.get("namespace", "elsewhere"),
            places.get("node", "elsewhere"),
            places.get("workload", ""),
        )
        for number in range(bounded(count))
    ]


def _passes(limits: MigrationLimits, active: Sequence[ActiveJob], *, workload: WorkloadReplicas | None = None) -> bool:
    """Whether the limits alone let the candidate pass; that its own pod may migrate already is no limit."""
    candidate = replace(_CANDIDATE, workload="w" if workload else "")
    snapshot = MigrationSnapshot([candidate], active, {"w": workload} if workload else {}, limits=limits)
    return MigrationOccupancy(snapshot, 0.0).hold(candidate, {}) is None


def limit_global(case: Case) -> Verdict:
    given = case["in"]
    limits = replace(_UNLIMITED, max_migrating_globally=given["max"], skip_gates=_gates(given))
    return compare(_passes(limits, _others(given["migrating_others"])), wanted(case))


def limit_per_node(case: Case) -> Verdict:
    given = case["in"]
    limits = replace(_UNLIMITED, max_migrating_per_node=given["max"], skip_gates=_gates(given))
    same = _others(given["migrating_others_same_scope"], node="node")
    return compare(_passes(limits, [*same, *_others(given["migrating_others_elsewhere"])]), wanted(case))


def limit_per_namespace(case: Case) -> Verdict:
    given = case["in"]
    limits = replace(_UNLIMITED, max_migrating_per_namespace=given["max"], skip_gates=_gates(given))
    same = _others(given["migrating_others_same_scope"], namespace="ns")
    return compare(_passes(limits, [*same, *_others(given["migrating_others_elsewhere"])]), wanted(case))


def limit_per_workload(case: Case) -> Verdict:
    given = case["in"]
    limits = replace(
        _UNLIMITED,
        max_migrating_per_workload=given["max_migrating"],
        max_unavailable_per_workload=given["max_unavailable"],
        skip_gates=_gates(given),
    )
    unready = frozenset(f"unready-{number}" for number in range(bounded(given["unavailable"])))
    workload = WorkloadReplicas(given["replicas"], unready)
    return compare(_passes(limits, _others(given["migrating_others"], workload="w"), workload=workload), wanted(case))


def expected_replicas(case: Case) -> Verdict:
    given = case["in"]
    limits = replace(
        _UNLIMITED,
        max_migrating_per_workload=given["max_migrating"],
        max_unavailable_per_workload=given["max_unavailable"],
        skip_check_expected_replicas=bool(given.get("skip_check")),
        skip_gates=_gates(given),
    )
    snapshot = MigrationSnapshot([_CANDIDATE], (), {"w": WorkloadReplicas(given["replicas"])}, limits=limits)
    return compare(not is_refused(snapshot, _CANDIDATE), wanted(case))


def arbitrate_one(case: Case) -> Verdict:
    given = case["in"]
    if not given["pod_found"]:
        return compare({"failed": False, "passed": True}, wanted(case))
    plan = _round(1, set() if given["non_retryable_pass"] else {0}, set() if given["retryable_pass"] else {0})
    return compare({"failed": bool(plan["failed"]), "passed": bool(plan["passed"])}, wanted(case))


def arbitrate_round(case: Case) -> Verdict:
    given = case["in"]
    return compare(_round(given["jobs"], set(given["non_retryable_fail"]), set(given["retryable_fail"])), wanted(case))


def _round(jobs: int, refused: set[int], held: set[int]) -> dict[str, list[int]]:
    """A job that is refused for good has a single replica; one that is held has a plugin against it."""
    waiting = [
        replace(_CANDIDATE, id=str(job), pod=f"pod-{job}", node="", workload="single" if job in refused else "")
        for job in range(bounded(jobs))
    ]
    snapshot = MigrationSnapshot(waiting, (), {"single": WorkloadReplicas(1)}, limits=_UNLIMITED)
    plan = arbitrate_plainly(snapshot, 0.0, group_filters=[lambda *_: {str(job): "held" for job in held}])
    return {
        "waiting": sorted(map(int, plan.holds)),
        "passed": sorted(map(int, plan.admitted)),
        "failed": sorted(map(int, plan.refused)),
    }


def object_limiter(case: Case) -> Verdict:
    given = case["in"]
    limiters = {
        LimiterScope(scope): ObjectLimiter(rule["duration_s"], rule.get("max_migrating"), rule.get("burst", 1))
        for scope, rule in given["limiters"].items()
    }
    limits = replace(
        _UNLIMITED,
        object_limiters=limiters,
        max_migrating_per_workload=given.get("max_migrating_per_workload"),
        skip_gates=_WORKLOAD_GATES,
    )
    candidate = replace(
        _CANDIDATE, workload=given["candidate"]["workload"], namespace=given["candidate"]["namespace"], node=""
    )
    workloads = {
        name: WorkloadReplicas(given["replicas"])
        for name in {candidate.workload, *(each["workload"] for each in given["evicted"])}
    }
    buckets: dict[tuple[LimiterScope, str], LimiterBucket] = {}
    for eviction in given["evicted"]:
        snapshot = MigrationSnapshot([], (), workloads, limits=limits, buckets=buckets)
        occupancy = MigrationOccupancy(snapshot, eviction["t"])
        occupancy.admit(replace(candidate, workload=eviction["workload"], namespace=eviction["namespace"]))
        buckets.update(occupancy.buckets)
    snapshot = MigrationSnapshot([candidate], (), workloads, limits=limits, buckets=buckets)
    held = MigrationOccupancy(snapshot, given["check_at"]).hold(candidate, {})
    return compare(held is not None, wanted(case))


def _running(ttl_s: float = 0.0) -> MigrationJob:
    return start(admit(MigrationJob("job", "pod", "test-node", 0.0, ttl_s=ttl_s), 0.0), 0.0)


_RESERVED = MoveView(reservation=ReservationState.AVAILABLE, reservation_node="elsewhere")


def _after(job: MigrationJob, view: MoveView, now_s: float = 1.0) -> MigrationJob:
    for following in settle(job, view, now_s):
        job = following
    return job


def _shown(job: MigrationJob, want: Mapping[str, Any]) -> Verdict:
    return compare({"phase": job.phase.value, "reason": job.reason.value}, want)


def migration_state(case: Case) -> Verdict:
    """Each case states what happens in its own words; those that name a state that jobs here have are read."""
    given, want = case["in"], wanted(case)
    if "checks_at_s" in given:
        jobs = [_after(_running(given["ttl_s"]), MoveView(), at_s) for at_s in given["checks_at_s"]]
        timeouts = [job.reason is MigrationReason.TIMEOUT for job in jobs]
        got: dict[str, Any] = {"timeout": timeouts}
        if "phase" in want:
            got |= {"phase": jobs[-1].phase.value, "reason": jobs[-1].reason.value}
        return compare(got, want)
    if "bound_pod" in given:
        return _bound(given["bound_pod"], want)
    if "steps" in given:
        return _steps(given["steps"], want["results"])
    reservation = given.get("reservation")
    if isinstance(reservation, Mapping):
        return _reserved(reservation, given, want)
    if reservation == "unschedulable":
        return _unschedulable(want)
    return _in_words(given)


def _in_words(given: Mapping[str, Any]) -> Verdict:
    return not_covered(f"a job in words that no view of a move stands for: {', '.join(sorted(given))}")


_BEGUN = MoveView(pod=OldPod.GONE, reservation=ReservationState.AVAILABLE, reservation_node="elsewhere")
_STEPS: Mapping[str, tuple[MoveView, ...]] = {
    "condition Eviction=True": (_RESERVED, replace(_BEGUN, eviction=EvictionAnswer.COMPLETED)),
    "pod missing, status ReservationScheduled": (_BEGUN,),
    "evict error": (_RESERVED, replace(_RESERVED, eviction=EvictionAnswer.NOT_YET)),
    "evict ok": (_RESERVED, _RESERVED),
    "pod gone": (_RESERVED, replace(_BEGUN, eviction=EvictionAnswer.COMPLETED)),
}
"""What is seen, one after the other, of a job that reserves. An eviction is declared in the step that takes the
reservation for scheduled, so that a pod that is missing then is missing before it."""


def _steps(steps: Sequence[str], results: Sequence[str]) -> Verdict:
    """Rounds follow events and the clock: when the peer looks again is no part of a result."""
    if unknown := set(steps) - _STEPS.keys():
        return _in_words(dict.fromkeys(unknown, True))
    got = []
    for step in steps:
        job = _running()
        for view in _STEPS[step]:
            job = _after(job, view)
        got.append("done" if step.startswith("condition") and not desired_state(job).eviction else _eviction_of(job))
    return compare(got, [result.removesuffix(" requeue 3s") for result in results])


def _eviction_of(job: MigrationJob) -> str:
    """As the peer has it: how the job ended, or else the condition; an error leads to another attempt in both."""
    if job.outcome is not None:
        return f"{job.phase.value}/{job.reason.value}"
    state = job.conditions[MigrationCondition.EVICTION]
    is_repeated = state.reason is MigrationReason.FAILED_EVICT and desired_state(job).eviction
    return "error bubbled up" if is_repeated else f"Eviction={state.status}/{state.reason.value}"


def _unschedulable(want: Mapping[str, Any]) -> Verdict:
    job = _after(_running(), MoveView(reservation=ReservationState.UNSCHEDULABLE))
    if "condition" in want:
        state = job.conditions[MigrationCondition.RESERVATION_SCHEDULED]
        shown = [MigrationCondition.RESERVATION_SCHEDULED.value, str(state.status), state.reason.value]
        return compare(shown, want["condition"][:3])
    return _shown(job, want)


def _reserved(reservation: Mapping[str, Any], given: Mapping[str, Any], want: Mapping[str, Any]) -> Verdict:
    condition = str(reservation.get("condition"))
    if "Unschedulable" in condition:
        return _unschedulable(want)
    if "Expired" in condition:
        return _shown(_after(_running(), MoveView(reservation=ReservationState.EXPIRED)), want)
    if "pod_node" in given and given["pod_node"] == reservation.get("node"):
        view = MoveView(reservation=ReservationState.AVAILABLE, reservation_node="test-node")
        return _shown(_after(_running(), view), want)
    if reservation.get("phase") == "Succeeded":
        job = _after(_running(), MoveView(reservation=ReservationState.CONSUMED))
        return compare(job.phase.value, want["phase"])
    if reservation.get("phase") == "Available" and want.get("phase") == "Succeeded":
        return _happy(want, paused=bool(given.get("paused_then_released")))
    return _in_words(given)


def _bound(bound: Sequence[str | None], want: Mapping[str, Any]) -> Verdict:
    gone = replace(_RESERVED, pod=OldPod.GONE, eviction=EvictionAnswer.COMPLETED)
    job = _after(_after(_running(), _RESERVED), gone)
    state = job.conditions[MigrationCondition.POD_BOUND_RESERVATION]
    done = [
        _after(job, replace(gone, replacement=Replacement.READY if name else Replacement.ABSENT)).outcome is not None
        for name in bound
    ]
    shown = [MigrationCondition.POD_BOUND_RESERVATION.value, str(state.status), state.reason.value]
    return compare({"done": done, "condition": shown}, {name: want[name] for name in ("done", "condition")})


def _happy(want: Mapping[str, Any], *, paused: bool) -> Verdict:
    job = _after(replace(_running(), paused=paused), _RESERVED)
    job = _after(replace(job, paused=False), _RESERVED)
    job = _after(job, replace(_RESERVED, pod=OldPod.GONE, eviction=EvictionAnswer.COMPLETED))
    ready = MoveView(
        pod=OldPod.GONE,
        reservation=ReservationState.CONSUMED,
        eviction=EvictionAnswer.COMPLETED,
        replacement=Replacement.READY,
    )
    job = _after(job, ready)
    return compare({"phase": job.phase.value, "status": job.reason.value}, want)


ADAPTORS: Mapping[str, Adaptor] = {
    "workload_budget": budget,
    "eviction_cost_gate": cost_gate,
    "eviction_cost_parse": cost_parse,
    "sort_jobs_by_pod_rank": sort_by_rank,
    "sort_jobs_by_creation": sort_by_creation,
    "sort_jobs_by_migrating_num": sort_by_migrating,
    "sort_jobs_by_controller": sort_by_controller,
    "migrating_job_count": migrating_count,
    "sort_pipeline": sort_pipeline,
    "limit_global": limit_global,
    "limit_per_node": limit_per_node,
    "limit_per_namespace": limit_per_namespace,
    "limit_per_workload": limit_per_workload,
    "expected_replicas": expected_replicas,
    "arbitrate_one": arbitrate_one,
    "arbitrate_round": arbitrate_round,
    "object_limiter": object_limiter,
    "migration_state": migration_state,
    **koord_low_node_load.ADAPTORS,
    **koord_load_rounds.ADAPTORS,
    **koord_move_entry.ADAPTORS,
}
