"""The order of waiting jobs: five keys, stable, then the members of a batch job pulled to the best of them.

Source: koordinator's proposal 20230707, revision of 2023-07-21: interval since the start, pod priority, whether members
of the same job migrate, priority of the migration, BE > LS > LSR = LSE. The first key that differs decides. That alone
would starve a job behind newer ones, so overdue jobs come before all others (`overdue_first`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TypeVar

from slackwater.model.tiers import QoSClass
from slackwater.podmigration.limits import ArbitrationArgs
from slackwater.podmigration.snapshot import WaitingJob

SortFn = Callable[[Sequence[WaitingJob]], Sequence[WaitingJob]]
"""A stable sort of another distribution. It is applied after the five keys, so it dominates them."""
QOS_RANK: Mapping[QoSClass, int] = {
    QoSClass.BE: 0,
    QoSClass.LS: 1,
    QoSClass.LSR: 2,
    QoSClass.LSE: 2,
    QoSClass.SYSTEM: 2,
}
_Item = TypeVar("_Item")


def sort_key(job: WaitingJob, migrating_batch_jobs: Collection[str], now_s: float) -> tuple[int, int, bool, int, int]:
    """Returns the five keys, lowest first. The interval is in whole seconds, so that jobs of one cycle are equal."""
    return (
        int(now_s - job.submitted_s),
        job.pod_priority,
        not (job.batch_job and job.batch_job in migrating_batch_jobs),
        -job.priority,
        QOS_RANK[job.qos],
    )


def in_rank_order(
    jobs: Sequence[WaitingJob], migrating_batch_jobs: Collection[str], now_s: float, sorts: Sequence[SortFn] = ()
) -> list[WaitingJob]:
    """Returns the jobs, first to be admitted first. Equal jobs keep their order."""
    ordered = sorted(jobs, key=lambda job: sort_key(job, migrating_batch_jobs, now_s))
    for sort in sorts:
        ordered = list(sort(ordered))
    return pulled_together(ordered, [job.batch_job or None for job in ordered])


def overdue_first(jobs: Sequence[WaitingJob], args: ArbitrationArgs, now_s: float) -> Sequence[WaitingJob]:
    """Returns jobs in rank order after those that have waited for `overdue_intervals` rounds, of which the longest
    waiting one comes first. Each job that no limit holds is so admitted after a bounded number of rounds."""
    before_s = overdue_before(args, now_s)
    overdue = [job for job in jobs if job.submitted_s <= before_s]
    if not overdue:
        return jobs
    overdue.sort(key=lambda job: job.submitted_s)
    return [*overdue, *(job for job in jobs if job.submitted_s > before_s)]


def overdue_before(args: ArbitrationArgs, now_s: float) -> float:
    """Returns the time of submission up to which a job is overdue; minus infinity where none is ever."""
    if not args.overdue_intervals or not args.enabled:
        return float("-inf")
    return now_s - args.overdue_intervals * args.interval_s


def pulled_together(items: Sequence[_Item], groups: Sequence[Hashable | None]) -> list[_Item]:
    """Returns the items with the members of each group behind its first member, in their own order. None: no group."""
    first: dict[Hashable, int] = {}
    places = [place if group is None else first.setdefault(group, place) for place, group in enumerate(groups)]
    return [items[place] for place in sorted(range(len(items)), key=lambda place: places[place])]
