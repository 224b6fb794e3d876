"""The grant of the Autonomies to evict: asked for before a move begins, so that no budget is exceeded by moves.

A request without an answer is repeated under its id, so that a late answer to it counts. Under a new id each time, jobs
would never begin while answers take longer than the pause, and each late grant would be counted for nothing. Repeats
become rarer, because each one makes the backlog of the asked side longer, and another process of that side counts it
again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from slackwater.migration.domain.sightings import SeenCluster
from slackwater.migration.domain.stored_jobs import EvictionGrant, StoredJob
from slackwater.model.records import record
from slackwater.podmigration.jobs import MigrationStep

VALID_S: Final = 120.0
"""How long a grant may be used: longer than a reservation may take to be placed."""
UNANSWERED_S: Final = 10.0
"""Pause before the first repeat of a request without an answer. It doubles from the second one on."""
AGAIN_S: Final = 30.0
"""Pause before the next request after a refusal."""
CHANGED_S: Final = 60.0
"""The longest pause, whatever the answer says: the Autonomy may have been changed."""


@record(frozen=True, slots=True)
class GrantRequest:
    """A request for a grant, or its repeat: the jobs that want to begin, and their pools."""

    request: str
    pools: tuple[tuple[str, str], ...]
    """Id of the job, and the pool of its node."""


def with_answer(stored: StoredJob, seen: SeenCluster) -> StoredJob:
    """Returns a job with the answer to its last request; an answer is read once, by a job that still waits for it."""
    grant = stored.grant
    said = seen.grants.get(grant.request)
    is_waiting = stored.job.step is MigrationStep.ADMITTED
    if said is None or not grant.is_unanswered or not is_waiting:
        return stored
    if stored.job.id in said.granted:
        granted = replace(grant, until_s=said.until_s, because="", again_s=None)
        return replace(stored, grant=granted, job=replace(stored.job, message=""))  # why it waited is over
    because = said.because or "not granted"
    refused = replace(grant, because=because, again_s=said.again_s)
    return replace(stored, grant=refused, job=replace(stored.job, message=because))


def is_ready(stored: StoredJob, queued: Collection[str]) -> bool:
    """Whether the queue has let an admitted job go."""
    job = stored.job
    return (
        job.step is MigrationStep.ADMITTED and stored.name not in queued and not job.paused and not job.abort_requested
    )


def asks(stored: StoredJob, now_s: float) -> bool:
    """Returns whether a grant is to be asked for now."""
    grant = stored.grant
    if stored.job.dry_run or grant.is_usable(now_s):
        return False
    if not grant.request or grant.until_s is not None:
        return True
    if grant.is_unanswered:
        return abs(now_s - grant.asked_s) >= _repeat_pause_s(grant)
    again_s = grant.asked_s + AGAIN_S if grant.again_s is None else grant.again_s
    is_set_back = now_s < grant.asked_s  # asked by a clock that was ahead
    return is_set_back or now_s >= min(again_s, grant.asked_s + CHANGED_S)


def request_grants(
    jobs: Mapping[str, StoredJob], ready: Sequence[str], pools: Mapping[str, str], request: str, now_s: float
) -> tuple[dict[str, StoredJob], Sequence[GrantRequest]]:
    """Returns the jobs after the requests for all that need a grant now: `request` is the id of a new one, repeats have
    theirs."""
    asked: dict[str, StoredJob] = {}
    named: dict[str, list[tuple[str, str]]] = {}
    for stored in (jobs[name] for name in ready):
        if asks(stored, now_s):
            repeated = stored.grant.is_unanswered
            grant = replace(stored.grant, asked_s=now_s) if repeated else EvictionGrant(request, now_s, since_s=now_s)
            asked[stored.name] = replace(stored, grant=grant)
            named.setdefault(grant.request, []).append((stored.job.id, pools.get(stored.job.node, "")))
    return {**jobs, **asked}, [GrantRequest(id_, tuple(pairs)) for id_, pairs in named.items()]


def _repeat_pause_s(grant: EvictionGrant) -> float:
    """As long as the request has waited so far, within bounds."""
    waited_s = 0.0 if grant.since_s is None else grant.asked_s - grant.since_s
    return min(max(waited_s, UNANSWERED_S), CHANGED_S)
