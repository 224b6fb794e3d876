"""Arbitration over arrays: what `arbitration.arbitrate_plainly` decides, for a hundred thousand waiting jobs.

The order is a sort of arrays, the checks are those of `job_groups`; only jobs that no full group holds from the start
are visited one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from slackwater.podmigration.arbitration import GroupFilterFn, held_by_plugins, ranked_jobs, selectable
from slackwater.podmigration.job_groups import OPEN, JobGroups
from slackwater.podmigration.job_order import QOS_RANK, SortFn, overdue_first
from slackwater.podmigration.kept_places import decide_overdue_first
from slackwater.podmigration.limits import HoldFilter, JobHold, SkipGate
from slackwater.podmigration.occupancy import (
    LIMITER_FILTER,
    PLUGIN_COUNT,
    MigrationOccupancy,
    is_refused,
    workload_limits,
)
from slackwater.podmigration.rate import LimiterScope
from slackwater.podmigration.snapshot import MigrationPlan, MigrationSnapshot, WaitingJob


def arbitrate(
    snapshot: MigrationSnapshot,
    now_s: float,
    *,
    sorts: Sequence[SortFn] = (),
    group_filters: Sequence[GroupFilterFn] = (),
) -> MigrationPlan:
    """Returns the plan of this moment. Raises InvalidAmountError where a limit is neither a count nor a percent."""
    return decide_overdue_first(
        snapshot, now_s, lambda part: _arbitrate(part, now_s, sorts=sorts, group_filters=group_filters)
    )


def _arbitrate(
    snapshot: MigrationSnapshot, now_s: float, *, sorts: Sequence[SortFn], group_filters: Sequence[GroupFilterFn]
) -> MigrationPlan:
    plain_order = sorts or not snapshot.args.enabled or snapshot.ranked is not None
    ranked = ranked_jobs(snapshot, now_s, sorts) if plain_order else _in_rank_order(snapshot, now_s)
    ranked = overdue_first(ranked, snapshot.args, now_s)
    plugin_reasons = held_by_plugins(ranked, snapshot, group_filters)
    refused_jobs = _refused(snapshot, ranked)
    jobs = [job for job in ranked if job.id not in refused_jobs] if refused_jobs else ranked
    occupancy = MigrationOccupancy(snapshot, now_s)
    groups = JobGroups(jobs)
    _add_identity(groups, snapshot, occupancy, plugin_reasons)
    _add_workloads(groups, snapshot, occupancy)
    _add_places(groups, snapshot, occupancy)
    _add_budgets(groups, snapshot, occupancy)
    _add_limiters(groups, snapshot, occupancy)
    count = selectable(snapshot, len(jobs))
    places = groups.admit_in_order(count)
    for place in places:
        occupancy.admit(jobs[place])
    holds = groups.holds(set(places), JobHold(HoldFilter.SELECT, "", len(places), count, now_s))
    return MigrationPlan([jobs[place].id for place in places], list(refused_jobs), holds, occupancy.buckets)


def _in_rank_order(snapshot: MigrationSnapshot, now_s: float) -> list[WaitingJob]:
    jobs = snapshot.waiting
    if not jobs:
        return []
    migrating = {job.batch_job for job in snapshot.active if job.batch_job}
    order = np.lexsort(
        (
            np.fromiter((QOS_RANK[job.qos] for job in jobs), np.int8, len(jobs)),
            np.fromiter((-job.priority for job in jobs), np.int64, len(jobs)),
            np.fromiter((job.batch_job not in migrating for job in jobs), np.bool_, len(jobs)),
            np.fromiter((job.pod_priority for job in jobs), np.int64, len(jobs)),
            np.trunc(now_s - np.fromiter((job.submitted_s for job in jobs), np.float64, len(jobs))),
        )
    )
    ordered = [jobs[place] for place in order.tolist()]
    first: dict[str, int] = {}
    places = np.fromiter(
        (first.setdefault(job.batch_job, place) if job.batch_job else place for place, job in enumerate(ordered)),
        np.int64,
        len(jobs),
    )
    return [ordered[place] for place in np.argsort(places, kind="stable").tolist()] if first else ordered


def _refused(snapshot: MigrationSnapshot, jobs: Sequence[WaitingJob]) -> dict[str, None]:
    """Returns the ids of refused jobs, in order."""
    some_job = {job.workload: job for job in jobs if not job.refusal}
    workloads = {workload for workload, job in some_job.items() if is_refused(snapshot, job)}
    return dict.fromkeys(job.id for job in jobs if job.refusal or job.workload in workloads)


def _add_identity(
    groups: JobGroups, snapshot: MigrationSnapshot, occupancy: MigrationOccupancy, plugin_reasons: Mapping[str, str]
) -> None:
    jobs = groups.jobs
    if any(job.paused for job in jobs):
        paused = groups.group(HoldFilter.PAUSED, "", 1, 1)
        groups.add(["paused" if job.paused else "" for job in jobs], lambda key: paused if key else OPEN)
    pods = [job.pod for job in jobs]
    contested = {pod for pod, count in Counter(pods).items() if count > 1 or occupancy.pods[pod]}

    def pod_group(pod: str) -> int:
        return groups.group(HoldFilter.POD_MIGRATING, pod, occupancy.pods[pod], 1) if pod else OPEN

    groups.add([pod if pod in contested else "" for pod in pods], pod_group)

    def unknown(name: str) -> int:
        known = not name or name in snapshot.workloads
        return OPEN if known else groups.group(HoldFilter.WORKLOAD_UNKNOWN, name, 1, 1)

    groups.add([job.workload for job in jobs], unknown)
    if plugin_reasons:
        numbers = {
            reason: groups.group(HoldFilter.PLUGIN, reason, *PLUGIN_COUNT)
            for reason in dict.fromkeys(plugin_reasons.values())
        }
        groups.add(
            [job.id for job in jobs], lambda job: numbers[plugin_reasons[job]] if job in plugin_reasons else OPEN
        )


def _add_workloads(groups: JobGroups, snapshot: MigrationSnapshot, occupancy: MigrationOccupancy) -> None:
    names = [job.workload for job in groups.jobs]
    bounds = {
        name: workload_limits(snapshot.limits, snapshot.workloads[name])
        for name in set(names) & snapshot.workloads.keys()
    }
    bounds.pop("", None)
    none = (None, None)

    def migrating(name: str) -> int:
        limit, _ = bounds.get(name, none)
        if limit is None:
            return OPEN
        return groups.group(HoldFilter.WORKLOAD_MIGRATING, name, occupancy.workloads[name], limit)

    def unavailable(name: str) -> int:
        _, limit = bounds.get(name, none)
        if limit is None:
            return OPEN
        return groups.group(HoldFilter.WORKLOAD_UNAVAILABLE, name, len(occupancy.disrupted[name]), limit)

    groups.add(names, migrating)
    groups.add(names, unavailable)
    groups.count_own([job.workload in bounds and job.pod in occupancy.disrupted[job.workload] for job in groups.jobs])


def _add_places(groups: JobGroups, snapshot: MigrationSnapshot, occupancy: MigrationOccupancy) -> None:
    limits, jobs = snapshot.limits, groups.jobs
    per_node = limits.of(SkipGate.MAX_MIGRATING_PER_NODE)
    if per_node is not None:
        groups.add(
            [job.node for job in jobs],
            lambda node: groups.group(HoldFilter.NODE, node, occupancy.nodes[node], per_node) if node else OPEN,
        )
    per_namespace = limits.of(SkipGate.MAX_MIGRATING_PER_NAMESPACE)
    if per_namespace is not None:
        groups.add(
            [job.namespace for job in jobs],
            lambda name: groups.group(HoldFilter.NAMESPACE, name, occupancy.namespaces[name], per_namespace),
        )
    globally = limits.of(SkipGate.MAX_MIGRATING_GLOBALLY)
    if globally is not None:
        groups.add([""] * len(jobs), lambda _: groups.group(HoldFilter.GLOBAL, "", occupancy.total, globally))


def _add_budgets(groups: JobGroups, snapshot: MigrationSnapshot, occupancy: MigrationOccupancy) -> None:
    numbers: dict[str, int] = {}

    def group_of(name: str) -> int:
        if name and name not in numbers:
            budget = snapshot.budgets.get(name)
            allowed = budget.allowed if budget else 0
            numbers[name] = groups.group(HoldFilter.DISRUPTION_BUDGET, name, occupancy.budgets[name], allowed)
        return numbers[name] if name else OPEN

    for place in range(max((len(job.budgets) for job in groups.jobs), default=0)):
        groups.add([job.budgets[place] if place < len(job.budgets) else "" for job in groups.jobs], group_of)


def _add_limiters(groups: JobGroups, snapshot: MigrationSnapshot, occupancy: MigrationOccupancy) -> None:
    def group_of(scope: LimiterScope, name: str) -> int:
        bucket = occupancy.bucket(scope, name) if name else None
        if bucket is None:
            return OPEN
        burst = snapshot.limits.object_limiters[scope].burst
        return groups.group(LIMITER_FILTER[scope], name, max(burst - bucket.whole_tokens, 0), burst)

    groups.add([job.workload for job in groups.jobs], lambda name: group_of(LimiterScope.WORKLOAD, name))
    groups.add([job.namespace for job in groups.jobs], lambda name: group_of(LimiterScope.NAMESPACE, name))
