"""From what is asked for to jobs: new ones, changed ones, and those that are aborted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from slackwater.migration.domain.sightings import SeenCluster, moved_pod
from slackwater.migration.domain.stored_jobs import MovedPod, StoredJob
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import MigrationJob, MigrationMode

SEEN_WITHIN_S: Final = 15.0
"""So long a job waits for the first report that shows its pod."""


def is_for(request: JobRequest, stored: StoredJob) -> bool:
    """Whether a request is that of a kept job, and not of another one that has taken its name."""
    before = stored.request
    same = (request.pod_uid, request.pod_namespace, request.pod_name, request.mode) == (
        before.pod_uid,
        before.pod_namespace,
        before.pod_name,
        before.mode,
    )
    return same and not (stored.job.abort_requested and request.generation > before.generation)


def taken_in(request: JobRequest, asked_s: float, seen: SeenCluster, now_s: float) -> StoredJob | None:
    """Returns a new job; None while its pod is not seen and may yet be. One whose pod is not seen in time is kept with
    what the request says of it, and its first transition ends it."""
    uid = request.pod_uid or seen.by_name.get((request.pod_namespace, request.pod_name), "")
    pod = seen.pods.get(uid)
    if pod is None and now_s < asked_s + SEEN_WITHIN_S:
        return None
    moved = MovedPod(uid=uid, name=request.pod_name, namespace=request.pod_namespace)
    if pod is not None:
        moved = moved_pod(pod)
    mode = MigrationMode.EVICT_DIRECTLY if moved.failed else request.mode  # nothing has to run elsewhere first
    job = MigrationJob(
        id=f"{request.name}-{request.generation}",
        pod=uid or f"{request.pod_namespace}/{request.pod_name}".strip("/"),
        node="" if pod is None else pod.node,
        submitted_s=asked_s,
        mode=mode,
        ttl_s=request.ttl_s,
        wait_s=request.wait_s,
        paused=request.paused,
        dry_run=request.dry_run,
        starts_replacement=bool(moved.digest) and mode is MigrationMode.RESERVATION_FIRST,
    )
    return StoredJob(job, request, moved)


def followed(stored: StoredJob, request: JobRequest) -> StoredJob:
    """Returns a live job with what may change while it lives: limits of time, pause, priority."""
    if request == stored.request or not stored.is_live:
        return stored
    job = replace(stored.job, ttl_s=request.ttl_s, wait_s=request.wait_s, paused=request.paused)
    return replace(stored, job=job, request=request)


def aborted(stored: StoredJob) -> StoredJob:
    """Returns a live job as asked to abort; an ended one stays as it is."""
    if not stored.is_live or stored.job.abort_requested:
        return stored
    return replace(stored, job=replace(stored.job, abort_requested=True))


def _is_kept(stored: StoredJob, jobs: Mapping[str, StoredJob]) -> bool:
    """Whether a job whose end was asked for is kept. A proposed one is, even if it has ended before: its proposal may
    be delivered once more, and must find it."""
    return stored.is_live or stored.job.abort_requested or not stored.request.generation or _is_taken(stored, jobs)


def _is_taken(stored: StoredJob, jobs: Mapping[str, StoredJob]) -> bool:
    """Whether the replacement of an ended job must be known to others."""
    workload = stored.pod.workload
    return bool(stored.job.replacement) and any(
        other.is_live and other.pod.workload == workload for other in jobs.values()
    )


def has_news(jobs: Mapping[str, StoredJob], requests: Mapping[str, JobRequest], withdrawn: Collection[str]) -> bool:
    """Whether an intake may change anything, where no job is live."""
    if any(name not in jobs or not is_for(request, jobs[name]) for name, request in requests.items()):
        return True
    return any(name in jobs and not jobs[name].job.abort_requested for name in withdrawn)


def intake(
    jobs: Mapping[str, StoredJob],
    requests: Mapping[str, JobRequest],
    asked_s: Mapping[str, float],
    withdrawn: Collection[str],
    seen: SeenCluster,
    now_s: float,
) -> dict[str, StoredJob]:
    """Returns all jobs after what is asked for now. `withdrawn`: names of jobs of documents that are gone.

    A name that is given again waits until the job before has ended, and then takes its place. An ended job goes with
    its document; one that was aborted by that, or was proposed, is kept for its time. One whose pod has a replacement
    is kept in both cases while other jobs of its workload are live: they would take the replacement for theirs.
    """
    found = {
        name: aborted(stored) if name in withdrawn else stored
        for name, stored in jobs.items()
        if name not in withdrawn or _is_kept(stored, jobs)
    }
    for name, request in sorted(requests.items()):
        stored = found.get(name)
        if stored is not None and is_for(request, stored):
            found[name] = followed(stored, request)
        elif stored is not None and stored.is_live:
            found[name] = aborted(stored)
        elif stored is None or not _is_taken(stored, found):
            new = taken_in(request, asked_s.get(name, now_s), seen, now_s)
            if new is not None:
                found[name] = new
    return found
