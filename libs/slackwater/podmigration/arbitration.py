"""Decides which waiting jobs start: Sort, GroupFilter, Select. The readable form; `batched` decides the same, faster.

GroupFilter checks all groups of a job together, in rank order. A job that one filter holds uses no room in the groups
of the others; applied one filter after another, as in the proposal, a job that a full node holds would keep its
workload's only place. A lower limit lets no more through in the groups that it limits; a job of another group may pass
instead. Holds are explained after the round: the count is the one that the next round starts from.
Source: koordinator's proposal 20230707, revision of 2023-07-21; docs/decisions/0112.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slackwater.podmigration.job_order import SortFn, in_rank_order, overdue_first
from slackwater.podmigration.kept_places import decide_overdue_first
from slackwater.podmigration.limits import HoldFilter, JobHold
from slackwater.podmigration.occupancy import MigrationOccupancy, is_refused
from slackwater.podmigration.snapshot import MigrationPlan, MigrationSnapshot, WaitingJob

GroupFilterFn = Callable[[Sequence[WaitingJob], MigrationSnapshot], Mapping[str, str]]
"""A filter of another distribution: the reason for each job that it holds, by id."""


def arbitrate_plainly(
    snapshot: MigrationSnapshot,
    now_s: float,
    *,
    sorts: Sequence[SortFn] = (),
    group_filters: Sequence[GroupFilterFn] = (),
) -> MigrationPlan:
    """Returns the plan of this moment. Raises InvalidAmountError where a limit is neither a count nor a percent."""
    return decide_overdue_first(
        snapshot, now_s, lambda part: _arbitrate_plainly(part, now_s, sorts=sorts, group_filters=group_filters)
    )


def _arbitrate_plainly(
    snapshot: MigrationSnapshot, now_s: float, *, sorts: Sequence[SortFn], group_filters: Sequence[GroupFilterFn]
) -> MigrationPlan:
    ranked = overdue_first(ranked_jobs(snapshot, now_s, sorts), snapshot.args, now_s)
    held = held_by_plugins(ranked, snapshot, group_filters)
    occupancy = MigrationOccupancy(snapshot, now_s)
    refused = [job for job in ranked if is_refused(snapshot, job)]
    open_jobs = [job for job in ranked if not is_refused(snapshot, job)]
    admitted: list[WaitingJob] = []
    count = selectable(snapshot, len(open_jobs))
    for job in open_jobs:
        if len(admitted) >= count:
            break
        if occupancy.hold(job, held) is None:
            occupancy.admit(job)
            admitted.append(job)
    admitted_ids = {job.id for job in admitted}
    holds = {}
    for job in open_jobs:
        if job.id not in admitted_ids:
            hold = occupancy.hold(job, held) or JobHold(HoldFilter.SELECT, "", len(admitted), count, now_s)
            holds[job.id] = hold.continued(job.hold)
    return MigrationPlan([job.id for job in admitted], [job.id for job in refused], holds, occupancy.buckets)


def ranked_jobs(snapshot: MigrationSnapshot, now_s: float, sorts: Sequence[SortFn]) -> Sequence[WaitingJob]:
    """Returns the waiting jobs in rank order; in the order of submission where arbitration is switched off."""
    if not snapshot.args.enabled:
        return snapshot.waiting
    if snapshot.ranked is not None:
        jobs = {job.id: job for job in snapshot.waiting}
        return [jobs[name] for name in snapshot.ranked]
    migrating = {job.batch_job for job in snapshot.active if job.batch_job}
    return in_rank_order(snapshot.waiting, migrating, now_s, sorts)


def held_by_plugins(
    ranked: Sequence[WaitingJob], snapshot: MigrationSnapshot, group_filters: Sequence[GroupFilterFn]
) -> Mapping[str, str]:
    """Returns the reasons of plugins by job; of several plugins that of the first."""
    found = dict(snapshot.held)
    for group_filter in group_filters:
        for job, reason in group_filter(ranked, snapshot).items():
            found.setdefault(job, reason)
    return found


def selectable(snapshot: MigrationSnapshot, jobs: int) -> int:
    """Returns how many jobs may be admitted in this round."""
    return snapshot.args.selectable(snapshot.queued) if snapshot.args.enabled else jobs
