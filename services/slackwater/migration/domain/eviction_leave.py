"""The leave of the Autonomies to evict: asked for before a move begins, so that no budget is exceeded by moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from slackwater.migration.domain.sightings import SeenCluster
from slackwater.migration.domain.stored_jobs import EvictionLeave, StoredJob
from slackwater.model.records import record
from slackwater.podmigration.jobs import MigrationStep

VALID_S: Final = 120.0
"""How long a grant may be used: longer than a reservation may take to be placed."""
UNANSWERED_S: Final = 10.0
AGAIN_S: Final = 30.0
"""Pauses before the next request, after one without an answer and after a refusal."""
CHANGED_S: Final = 60.0
"""The longest pause, whatever the answer says: the Autonomy may have been changed."""


@record(frozen=True, slots=True)
class LeaveAsked:
    """A request for leave: the jobs that want to begin, and their pools."""

    request: str
    pools: tuple[tuple[str, str], ...]
    """Id of the job, and the pool of its node."""


def with_answer(stored: StoredJob, seen: SeenCluster) -> StoredJob:
    """Returns a job with the answer to its last request; an answer is read once, by a job that still waits for it."""
    leave = stored.leave
    said = seen.leaves.get(leave.request)
    is_waiting = stored.job.step is MigrationStep.ADMITTED
    if said is None or leave.until_s is not None or leave.because or not is_waiting:
        return stored
    if stored.job.id in said.granted:
        granted = replace(leave, until_s=said.until_s, because="", again_s=None)
        return replace(stored, leave=granted, job=replace(stored.job, message=""))  # why it waited is over
    because = said.because or "not granted"
    refused = replace(leave, because=because, again_s=said.again_s)
    return replace(stored, leave=refused, job=replace(stored.job, message=because))


def is_ready(stored: StoredJob, queued: Collection[str]) -> bool:
    """Whether the queue has let an admitted job go."""
    job = stored.job
    return (
        job.step is MigrationStep.ADMITTED and stored.name not in queued and not job.paused and not job.abort_requested
    )


def asks(stored: StoredJob, now_s: float) -> bool:
    """Whether leave is to be asked for now."""
    leave = stored.leave
    if stored.job.dry_run or leave.is_usable(now_s):
        return False
    if not leave.request or leave.until_s is not None:
        return True
    if not leave.because:
        return abs(now_s - leave.asked_s) >= UNANSWERED_S
    again_s = leave.asked_s + AGAIN_S if leave.again_s is None else leave.again_s
    is_set_back = now_s < leave.asked_s  # asked by a clock that was ahead
    return is_set_back or now_s >= min(again_s, leave.asked_s + CHANGED_S)


def leave_asked(
    jobs: Mapping[str, StoredJob], ready: Sequence[str], pools: Mapping[str, str], request: str, now_s: float
) -> tuple[dict[str, StoredJob], LeaveAsked | None]:
    """Returns the jobs after a request for all that need leave now; None where none does."""
    wanting = [jobs[name] for name in ready if asks(jobs[name], now_s)]
    if not wanting:
        return dict(jobs), None
    asked = {stored.name: replace(stored, leave=EvictionLeave(request, now_s)) for stored in wanting}
    named = tuple((stored.job.id, pools.get(stored.job.node, "")) for stored in wanting)
    return {**jobs, **asked}, LeaveAsked(request, named)
