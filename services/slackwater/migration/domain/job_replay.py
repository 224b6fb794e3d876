"""The JSON from which a decision about a move is made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from slackwater.model.tiers import QoSClass
from slackwater.podmigration.arbitration import arbitrate_plainly
from slackwater.podmigration.budgets import DisruptionBudget
from slackwater.podmigration.jobs import (
    ConditionState,
    MigrationCondition,
    MigrationJob,
    MigrationMode,
    MigrationPhase,
    MigrationReason,
    MigrationStep,
    MoveOutcome,
)
from slackwater.podmigration.lifecycle import (
    EvictionAnswer,
    MoveView,
    OldPod,
    Replacement,
    ReservationState,
    StartAnswer,
    settle,
    start,
)
from slackwater.podmigration.limits import ArbitrationArgs, HoldFilter, JobHold, MigrationLimits, SkipGate
from slackwater.podmigration.rate import LimiterBucket, LimiterScope, ObjectLimiter
from slackwater.podmigration.snapshot import ActiveJob, MigrationSnapshot, WaitingJob, WorkloadReplicas

STEP: Final = f"{__name__}:replay_step"
START: Final = f"{__name__}:replay_start"
ADMISSION: Final = f"{__name__}:replay_admission"
RANK: Final[Mapping[MigrationStep, int]] = {step: place for place, step in enumerate(MigrationStep)}
"""The number of a step: the result of records about steps."""


def step_arguments(job: MigrationJob, view: MoveView, now_s: float) -> dict[str, Any]:
    """Returns the arguments of `replay_step`."""
    return {"job": job_document(job), "view": asdict(view), "now_s": now_s}


def replay_step(job: Mapping[str, Any], view: Mapping[str, Any], now_s: float) -> int:
    """Returns the number of the next step that the job comes to; of its present one where it stays."""
    before = job_of(job)
    for after in settle(before, view_of(view), now_s):
        if after.step is not before.step:
            return RANK[after.step]
    return RANK[before.step]


def replay_start(job: Mapping[str, Any], now_s: float) -> int:
    """Returns the number of the step that a started job comes to."""
    return RANK[start(job_of(job), now_s).step]


def replay_admission(snapshot: Mapping[str, Any], now_s: float, job: str) -> int:
    """Decides a round again; returns 1 for an admitted job, 0 for a refused one, else what is left of the limit that
    holds it, 0 or below. Raises LookupError where the job is not decided about."""
    plan = arbitrate_plainly(snapshot_of_document(snapshot), now_s)
    if job in plan.admitted:
        return 1
    if job in plan.refused:
        return 0
    if job not in plan.holds:
        raise LookupError(f"job {job} is not decided about")
    return plan.holds[job].limit - plan.holds[job].count


def job_document(job: MigrationJob) -> dict[str, Any]:
    """Returns a job as JSON."""
    document = asdict(job)
    document["conditions"] = {name.value: asdict(state) for name, state in job.conditions.items()}
    return document


def job_of(document: Mapping[str, Any]) -> MigrationJob:
    """Returns the job of `job_document`."""
    read = dict(document)
    outcome = read.get("outcome")
    read.update(
        mode=MigrationMode(read["mode"]),
        step=MigrationStep(read["step"]),
        phase=MigrationPhase(read["phase"]),
        reason=MigrationReason(read["reason"]),
        outcome=None if outcome is None else MoveOutcome(outcome),
        conditions={
            MigrationCondition(name): ConditionState(
                state["status"], MigrationReason(state["reason"]), state["since_s"]
            )
            for name, state in read["conditions"].items()
        },
    )
    return MigrationJob(**read)


def view_of(document: Mapping[str, Any]) -> MoveView:
    """Returns the view of `step_arguments`."""
    return MoveView(
        pod=OldPod(document["pod"]),
        reservation=ReservationState(document["reservation"]),
        reservation_node=document["reservation_node"],
        eviction=EvictionAnswer(document["eviction"]),
        eviction_detail=document.get("eviction_detail", ""),
        replacement=Replacement(document["replacement"]),
        replacement_uid=document["replacement_uid"],
        replacement_detail=document.get("replacement_detail", ""),
        start=StartAnswer(document.get("start", StartAnswer.NONE)),
        start_attempt=document.get("start_attempt", 0),
        start_detail=document.get("start_detail", ""),
        can_return=document.get("can_return", False),
    )


def admission_arguments(snapshot: MigrationSnapshot, now_s: float, job: str) -> dict[str, Any]:
    """Returns the arguments of `replay_admission`."""
    return {"snapshot": snapshot_document(snapshot), "now_s": now_s, "job": job}


def snapshot_document(snapshot: MigrationSnapshot) -> dict[str, Any]:
    """Returns a snapshot as JSON; what most rounds do not have only where it is there."""
    limits = snapshot.limits
    some: dict[str, Any] = {}
    if snapshot.ranked is not None:
        some["ranked"] = list(snapshot.ranked)
    if snapshot.held:
        some["held"] = dict(snapshot.held)
    if snapshot.budgets:
        some["budgets"] = [asdict(budget) for _, budget in sorted(snapshot.budgets.items())]
    return {
        **some,
        "waiting": [asdict(job) for job in snapshot.waiting],
        "active": [asdict(job) for job in snapshot.active],
        "workloads": {
            name: {"replicas": workload.replicas, "unready": sorted(workload.unready)}
            for name, workload in sorted(snapshot.workloads.items())
        },
        "limits": {
            "max_migrating_globally": limits.max_migrating_globally,
            "max_migrating_per_node": limits.max_migrating_per_node,
            "max_migrating_per_namespace": limits.max_migrating_per_namespace,
            "max_migrating_per_workload": limits.max_migrating_per_workload,
            "max_unavailable_per_workload": limits.max_unavailable_per_workload,
            "skip_check_expected_replicas": limits.skip_check_expected_replicas,
            "skip_gates": sorted(limits.skip_gates),
            "object_limiters": {scope.value: asdict(limiter) for scope, limiter in limits.object_limiters.items()},
        },
        "args": asdict(snapshot.args),
        "queued": snapshot.queued,
        "buckets": [
            [scope.value, name, bucket.tokens, bucket.at_s]
            for (scope, name), bucket in sorted(snapshot.buckets.items())
        ],
    }


def snapshot_of_document(document: Mapping[str, Any]) -> MigrationSnapshot:
    """Returns the snapshot of `snapshot_document`."""
    limits = dict(document["limits"])
    limits["skip_gates"] = frozenset(SkipGate(gate) for gate in limits["skip_gates"])
    limits["object_limiters"] = {
        LimiterScope(scope): ObjectLimiter(**limiter) for scope, limiter in limits["object_limiters"].items()
    }
    return MigrationSnapshot(
        waiting=[_waiting_of(job) for job in document["waiting"]],
        active=[ActiveJob(**job) for job in document["active"]],
        workloads={
            name: WorkloadReplicas(workload["replicas"], frozenset(workload["unready"]))
            for name, workload in document["workloads"].items()
        },
        limits=MigrationLimits(**limits),
        args=ArbitrationArgs(**document["args"]),
        queued=document["queued"],
        ranked=document.get("ranked"),
        held=document.get("held", {}),
        budgets={budget["name"]: DisruptionBudget(**budget) for budget in document.get("budgets", ())},
        buckets={
            (LimiterScope(scope), name): LimiterBucket(tokens, at_s)
            for scope, name, tokens, at_s in document["buckets"]
        },
    )


def _waiting_of(document: Mapping[str, Any]) -> WaitingJob:
    read = dict(document)
    read["qos"] = QoSClass(read["qos"])
    if read["hold"] is not None:
        read["hold"] = JobHold(**{**read["hold"], "filter": HoldFilter(read["hold"]["filter"])})
    return WaitingJob(**read)
