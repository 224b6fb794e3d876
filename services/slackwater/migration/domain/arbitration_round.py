"""A round of arbitration: from kept jobs to a MigrationSnapshot, and from its plan back to jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.migration.domain.disruption_budgets import budgets_of, budgets_refusal
from slackwater.migration.domain.sightings import SeenCluster, unready_of
from slackwater.migration.domain.stored_jobs import ArbitrationState, MigrationLedger, StoredJob
from slackwater.podmigration.budgets import DisruptionBudget
from slackwater.podmigration.documents import ArbitrationRules
from slackwater.podmigration.jobs import MigrationStep
from slackwater.podmigration.lifecycle import admit, hold, refuse
from slackwater.podmigration.snapshot import ActiveJob, MigrationPlan, MigrationSnapshot, WaitingJob, WorkloadReplicas

REFUSED = "its workload cannot spare a replica"


def snapshot_of(ledger: MigrationLedger, seen: SeenCluster, rules: ArbitrationRules, now_s: float) -> MigrationSnapshot:
    """Returns everything that a round depends on. A workload counts its running pods, and those that moves took."""
    live = ledger.live()
    away: dict[str, int] = {}
    for stored in live:
        if stored.job.step is MigrationStep.REPLACING and not stored.job.replacement and not stored.pod.failed:
            away[stored.pod.workload] = away.get(stored.pod.workload, 0) + 1
    workloads = {
        stored.pod.workload: WorkloadReplicas(
            seen.replicas.get(stored.pod.workload, 0) + away.get(stored.pod.workload, 0),
            unready_of(seen, stored.pod.workload),
        )
        for stored in live
        if stored.pod.workload
    }
    budgets = {
        each.budget.name: each.without(ledger.state.taken, now_s) for found in seen.budgets.values() for each in found
    }
    names = {stored.name: _budgets(stored, seen, budgets) for stored in live} if budgets else {}
    selecting = {name for found in names.values() for name in found}
    return MigrationSnapshot(
        waiting=[_waiting(stored, names, seen) for stored in live if stored.job.step is MigrationStep.WAITING],
        active=[_active(stored, names) for stored in live if stored.job.step is not MigrationStep.WAITING],
        workloads=workloads,
        budgets={name: budget for name, budget in budgets.items() if name in selecting},
        limits=rules.limits,
        args=rules.args,
        queued=len(ledger.state.queue.jobs),
        buckets=ledger.state.buckets,
    )


def is_due(state: ArbitrationState, interval_s: float, now_s: float) -> bool:
    """Whether a round begins now. A clock that was set back does not hold rounds back."""
    return state.round_s is None or abs(now_s - state.round_s) >= interval_s


def after_plan(
    ledger: MigrationLedger, plan: MigrationPlan, seen: SeenCluster, now_s: float
) -> tuple[ArbitrationState, Mapping[str, StoredJob]]:
    """Returns the state and the jobs after a plan."""
    jobs = dict(ledger.jobs)
    for name in plan.admitted:
        stored = jobs[name]
        pod = replace(stored.pod, unready=_is_unready(stored, seen))
        jobs[name] = replace(stored, pod=pod, job=admit(stored.job, now_s), hold=None)
    for name in plan.refused:
        stored = jobs[name]
        jobs[name] = replace(stored, job=refuse(stored.job, _refusal(stored, seen) or REFUSED), hold=None)
    for name, held in plan.holds.items():
        stored = jobs[name]
        if stored.hold != held:
            jobs[name] = replace(stored, job=hold(stored.job, held), hold=held)
    state = replace(
        ledger.state,
        round_s=now_s,
        queue=ledger.state.queue.enqueue(plan.admitted),
        buckets={**ledger.state.buckets, **plan.buckets},
    )
    return state, jobs


def is_held_by_other(before: StoredJob | None, after: StoredJob) -> bool:
    """Whether another filter, or another object of it, holds the job than before."""
    if after.hold is None:
        return False
    earlier = None if before is None else before.hold
    return earlier is None or (earlier.filter, earlier.scope) != (after.hold.filter, after.hold.scope)


def _is_unready(stored: StoredJob, seen: SeenCluster) -> bool:
    """Whether the pod is known not to be ready; of one that is gone, whether it was not when its job was admitted."""
    pod = seen.pods.get(stored.job.pod)
    return stored.pod.unready if pod is None else not pod.is_ready


def _budgets(stored: StoredJob, seen: SeenCluster, budgets: Mapping[str, DisruptionBudget]) -> Sequence[str]:
    """Of the pod as it is seen now, or was seen last: one that is gone may be counted as healthy still. One that has
    failed was not. A pod that is not ready counts in none that lets it go, and one that has not begun in none at all,
    as the API server has it."""
    if _is_uncounted(stored, seen):
        return ()
    names = budgets_of(seen.budgets, stored.pod.namespace, _labels(stored, seen))
    if not _is_unready(stored, seen):
        return names
    return tuple(name for name in names if not budgets[name].lets_unready_go)


def _refusal(stored: StoredJob, seen: SeenCluster) -> str:
    """Why the pod can never be evicted; empty: it may be."""
    if not seen.budgets or _is_uncounted(stored, seen):
        return ""
    return budgets_refusal(seen.budgets, stored.pod.namespace, _labels(stored, seen))


def _is_uncounted(stored: StoredJob, seen: SeenCluster) -> bool:
    """Whether the API server asks no budget about the pod: it has failed, or has not begun."""
    pod = seen.pods.get(stored.job.pod)
    return stored.pod.failed or (pod is not None and pod.is_pending)


def _labels(stored: StoredJob, seen: SeenCluster) -> Mapping[str, str]:
    pod = seen.pods.get(stored.job.pod)
    return stored.pod.labels if pod is None else pod.pod.labels


def _waiting(stored: StoredJob, budgets: Mapping[str, Sequence[str]], seen: SeenCluster) -> WaitingJob:
    return WaitingJob(
        id=stored.name,
        pod=stored.job.pod,
        namespace=stored.pod.namespace,
        node=stored.job.node,
        workload="" if stored.pod.failed else stored.pod.workload,
        submitted_s=stored.job.submitted_s,
        pod_priority=stored.pod.priority,
        priority=stored.request.priority,
        qos=stored.pod.qos,
        budgets=budgets.get(stored.name, ()),
        refusal=_refusal(stored, seen),
        paused=stored.job.paused,
        hold=stored.hold,
    )


def _active(stored: StoredJob, budgets: Mapping[str, Sequence[str]]) -> ActiveJob:
    return ActiveJob(
        id=stored.name,
        pod=stored.job.pod,
        namespace=stored.pod.namespace,
        node=stored.job.node,
        workload="" if stored.pod.failed else stored.pod.workload,
        budgets=budgets.get(stored.name, ()),
        evicted=stored.job.step is MigrationStep.REPLACING,
        replacement=stored.job.replacement,
    )
