"""Which jobs a follower has not seen: each job carries the generation of the ledger that changed it last. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from slackwater.migration.domain.stored_jobs import StoredJob
from slackwater.model.records import record


@record(frozen=True, slots=True)
class ChangedJob:
    """A job that changed, and the version from which a follower that has handled it goes on."""

    job: StoredJob
    resume: int


def first_version(resume: int, generation: int) -> int:
    """Returns the version after which a follower is sent changes: all of them for one that begins (0), or whose version
    the ledger has not reached, because it was restored."""
    return resume if 0 < resume <= generation else -1


def changed_since(jobs: Mapping[str, StoredJob], version: int, names: Collection[str] = ()) -> Sequence[ChangedJob]:
    """Returns the jobs that changed after a version, oldest change first; of `names`, or all.

    Jobs that one round changed have one version. Only the last of them completes it, so that a follower that lost the
    rest gets it again.
    """
    changed = [job for job in jobs.values() if job.version > version and (not names or job.name in names)]
    changed.sort(key=lambda job: (job.version, job.name))
    found, complete = [], max(version, 0)
    for place, job in enumerate(changed):
        if place + 1 == len(changed) or changed[place + 1].version > job.version:
            complete = max(job.version, 0)
        found.append(ChangedJob(job, complete))
    return found


def newest_version(jobs: Mapping[str, StoredJob], generation: int) -> int:
    """Returns the version that a follower of these jobs has; they may be newer than the generation read before them."""
    return max([generation, *(job.version for job in jobs.values())])


def have_ended(jobs: Mapping[str, StoredJob], names: Collection[str]) -> bool:
    """Whether each of these jobs is known and has ended; False for none."""
    return bool(names) and all(name in jobs and not jobs[name].is_live for name in names)
