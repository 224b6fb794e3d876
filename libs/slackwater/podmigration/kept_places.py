"""Keeps the places that the longest waiting of the overdue jobs needs, until it has all of them.

A job that needs a place of its node and one of its workload at the same moment waits for ever beside two streams of
newer jobs that free these in turn. So a round decides the overdue jobs first. Of those that only moves under way hold,
the longest waiting then counts as one under way itself, for all jobs that are not overdue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from slackwater.podmigration.budgets import DisruptionBudget
from slackwater.podmigration.job_order import overdue_before
from slackwater.podmigration.limits import HoldFilter
from slackwater.podmigration.occupancy import MigrationOccupancy, limiter_keys
from slackwater.podmigration.rate import LimiterBucket, LimiterScope
from slackwater.podmigration.snapshot import ActiveJob, MigrationPlan, MigrationSnapshot, WaitingJob

Buckets = Mapping[tuple[LimiterScope, str], LimiterBucket]
_NOT_OF_MOVES = frozenset({HoldFilter.PAUSED, HoldFilter.WORKLOAD_UNKNOWN, HoldFilter.PLUGIN, HoldFilter.SELECT})
"""Filters that no end of a move lifts."""


def decide_overdue_first(
    snapshot: MigrationSnapshot, now_s: float, decide: Callable[[MigrationSnapshot], MigrationPlan]
) -> MigrationPlan:
    """Returns the plan of `decide` for the overdue jobs, and after it for the others without the places kept."""
    before_s = overdue_before(snapshot.args, now_s)
    overdue = [job for job in snapshot.waiting if job.submitted_s <= before_s]
    if not overdue:
        return decide(snapshot)
    newer = [job for job in snapshot.waiting if job.submitted_s > before_s]
    first = decide(_with_waiting(snapshot, overdue))
    if not newer:
        return first
    admitted = set(first.admitted)
    begun = [_under_way(job) for job in overdue if job.id in admitted]
    buckets = {**snapshot.buckets, **first.buckets}
    next_job = _next_to_go(overdue, first, snapshot, now_s)
    tokens = {} if next_job is None else _spent_by(next_job, replace(snapshot, buckets=buckets), now_s)
    rest = decide(
        replace(
            _with_waiting(snapshot, newer),
            active=[*snapshot.active, *begun, *([] if next_job is None else [_under_way(next_job)])],
            queued=snapshot.queued + len(begun),
            buckets={**buckets, **tokens},
        )
    )
    returned = {key: bucket.spent(-1) if key in tokens else bucket for key, bucket in rest.buckets.items()}
    return MigrationPlan(
        [*first.admitted, *rest.admitted],
        [*first.refused, *rest.refused],
        {**first.holds, **rest.holds},
        {**first.buckets, **returned},
    )


def _with_waiting(snapshot: MigrationSnapshot, jobs: Sequence[WaitingJob]) -> MigrationSnapshot:
    ids = {job.id for job in jobs}
    ranked = None if snapshot.ranked is None else [name for name in snapshot.ranked if name in ids]
    return replace(snapshot, waiting=jobs, ranked=ranked)


def _under_way(job: WaitingJob) -> ActiveJob:
    """Returns the job as one that is admitted. Its batch job is none that moves already: it began in this round."""
    return ActiveJob(job.id, job.pod, job.namespace, job.node, job.workload, budgets=job.budgets)


def _next_to_go(
    overdue: Sequence[WaitingJob], plan: MigrationPlan, snapshot: MigrationSnapshot, now_s: float
) -> WaitingJob | None:
    """Returns the longest waiting job that would be admitted if no move were under way."""
    alone = MigrationOccupancy(_without_moves(snapshot), now_s)
    for job in sorted(overdue, key=lambda job: job.submitted_s):
        hold = plan.holds.get(job.id)
        if hold is None or hold.filter in _NOT_OF_MOVES:
            continue
        if alone.hold(job, snapshot.held) is None:
            return job
    return None


def _without_moves(snapshot: MigrationSnapshot) -> MigrationSnapshot:
    """Returns the snapshot as it is once all moves have ended: pods are ready again, and limiters have their tokens."""
    moving = {name for job in snapshot.active for name in (job.pod, job.replacement)}
    workloads = {
        name: replace(workload, unready=workload.unready - moving) for name, workload in snapshot.workloads.items()
    }
    budgets = {name: _recovered(budget, snapshot.active) for name, budget in snapshot.budgets.items()}
    return replace(snapshot, active=[], workloads=workloads, budgets=budgets, buckets={})


def _recovered(budget: DisruptionBudget, moves: Sequence[ActiveJob]) -> DisruptionBudget:
    away = sum(budget.name in job.budgets for job in moves)
    if not away:
        return budget
    return replace(budget, healthy=min(budget.healthy + away, budget.expected), server_allows=None)


def _spent_by(job: WaitingJob, snapshot: MigrationSnapshot, now_s: float) -> Buckets:
    """Returns the buckets without the token that the job needs."""
    occupancy = MigrationOccupancy(snapshot, now_s)
    buckets = {key: occupancy.bucket(*key) for key in limiter_keys(job)}
    return {key: bucket.spent() for key, bucket in buckets.items() if bucket is not None}
