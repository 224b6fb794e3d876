"""One round: from what is kept, what is asked for, what is seen and a time, to what is kept next and what is published.

Everything is decided here and persisted in one transaction, with the events that follow from it: a crash leaves either
the state before a round or the one after it, and the next process goes on from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from slackwater.migration.domain.arbitration_round import after_plan, is_due, is_held_by_other, snapshot_of
from slackwater.migration.domain.disruption_budgets import taken_pods
from slackwater.migration.domain.eviction_documents import (
    DeclaredNode,
    asked_again,
    documents_after,
    with_withdrawals,
)
from slackwater.migration.domain.eviction_grant import GrantRequest, is_ready, request_grants, with_answer
from slackwater.migration.domain.job_intake import intake
from slackwater.migration.domain.move_views import claimed_pods, gone_pods, reservation_name, view_of_move
from slackwater.migration.domain.reservation_round import AskedReservation, PodsOf, Rooms, reservations_after
from slackwater.migration.domain.sightings import SeenCluster
from slackwater.migration.domain.stored_jobs import (
    ArbitrationState,
    MigrationLedger,
    StoredJob,
)
from slackwater.model.records import record
from slackwater.podmigration.arbitration_plugins import with_plugins
from slackwater.podmigration.batched import arbitrate
from slackwater.podmigration.documents import ArbitrationRules, JobRequest
from slackwater.podmigration.jobs import MigrationJob, MigrationReason, MigrationStep, MoveOutcome
from slackwater.podmigration.lifecycle import MoveView, settle, start
from slackwater.podmigration.rate import LimiterBucket, LimiterScope
from slackwater.podmigration.snapshot import MigrationSnapshot

_NO_VIEW: Final = MoveView()
_RUNS_AGAIN: Final = frozenset({MoveOutcome.MOVED, MoveOutcome.RETURNED})


@record(frozen=True, slots=True)
class MigrationAsks:
    """What is asked for now: jobs and reservations of documents and proposals, and names that were withdrawn."""

    jobs: Mapping[str, JobRequest] = field(default_factory=dict)
    asked_s: Mapping[str, float] = field(default_factory=dict)
    withdrawn: Collection[str] = frozenset()
    reservations: Mapping[str, AskedReservation] = field(default_factory=dict)
    gone_reservations: Collection[str] = frozenset()


@record(frozen=True, slots=True)
class RoundWorld:
    """What a round sees of the cluster. `rooms` and `pods_of` are computed where they are needed."""

    seen: SeenCluster
    rooms: Rooms
    pods_of: PodsOf
    nodes: Collection[str]


@record(frozen=True, slots=True)
class JobStep:
    """One transition of a job and what it followed from."""

    name: str
    before: MigrationJob
    after: MigrationJob
    view: MoveView
    by_round: bool = False
    """Whether a round of arbitration decided it, and not what was seen."""


@record(frozen=True, slots=True)
class RoundResult:
    """The ledger after a round, and what there is to tell of it."""

    ledger: MigrationLedger
    steps: Sequence[JobStep] = ()
    held: Sequence[str] = ()
    """Names of jobs that another filter holds than before."""
    snapshot: MigrationSnapshot | None = None
    """What a round of arbitration was about; None: there was none."""
    declared: Sequence[DeclaredNode] = ()
    grant_requests: Sequence[GrantRequest] = ()


def migration_round(
    ledger: MigrationLedger,
    asks: MigrationAsks,
    world: RoundWorld,
    rules: ArbitrationRules,
    grace_s: float,
    now_s: float,
) -> RoundResult:
    """Returns the outcome of one round. The same ledger comes out where nothing changes."""
    seen, steps = world.seen, list[JobStep]()
    jobs = intake(ledger.jobs, asks.jobs, asks.asked_s, asks.withdrawn, seen, now_s)
    jobs = {name: with_answer(asked_again(stored, seen, now_s), seen) for name, stored in jobs.items()}
    current = replace(ledger, jobs=jobs)
    reservations = reservations_after(
        current, asks.reservations, asks.gone_reservations, seen, world.rooms, world.pods_of, world.nodes, now_s
    )
    current = _settled(replace(current, reservations=reservations), seen, grace_s, now_s, steps)
    current = _with_taken(current, ledger, seen, now_s)
    current, snapshot, held = _arbitrated(current, seen, rules, now_s, steps)
    current = _dequeued(current, rules.args.process_queue_qps, now_s)
    current, grant_requests = _started(current, seen, now_s, steps)
    generation = ledger.state.generation + 1
    documents, declared = documents_after(current.state.documents, current.jobs, seen, generation, now_s)
    jobs = with_withdrawals(current.jobs, documents, generation)
    current = replace(current, state=replace(current.state, documents=documents), jobs=jobs)
    return RoundResult(_released(current), steps, held, snapshot, declared, grant_requests)


def _settled(
    ledger: MigrationLedger, seen: SeenCluster, grace_s: float, now_s: float, steps: list[JobStep]
) -> MigrationLedger:
    """Every live job after the transitions that are possible now, one job after the other: none takes the replacement
    of another."""
    jobs, claimed, gone = dict(ledger.jobs), claimed_pods(ledger), gone_pods(ledger)
    for stored in ledger.live():
        view = view_of_move(stored, ledger.reservations, claimed, gone, seen, grace_s, now_s)
        after = stored
        for following in settle(stored.job, view, now_s):
            job = _with_refusals(following, stored, ledger)
            if (job.step, job.start_attempt) != (after.job.step, after.job.start_attempt):
                steps.append(JobStep(stored.name, after.job, job, view))
            after = _with_times(_with_job(after, job, now_s), after, seen, now_s)
        jobs[stored.name] = after
        if after.job.replacement:
            claimed[after.job.replacement] = after.job.id
    return replace(ledger, jobs=jobs)


def _with_taken(ledger: MigrationLedger, before: MigrationLedger, seen: SeenCluster, now_s: float) -> MigrationLedger:
    """With the pods that budgets may count as healthy still; where there are budgets."""
    if not seen.budgets and not ledger.state.taken:
        return ledger
    taken = taken_pods(ledger.state.taken, before.jobs, ledger.jobs, seen.evictions, now_s)
    return ledger if taken == ledger.state.taken else replace(ledger, state=replace(ledger.state, taken=taken))


def _with_refusals(job: MigrationJob, stored: StoredJob, ledger: MigrationLedger) -> MigrationJob:
    """A job that ends because no node takes its reservation, with the count of nodes by what keeps it off."""
    kept = ledger.reservations.get(reservation_name(stored))
    if job.reason is not MigrationReason.UNSCHEDULABLE or job.outcome is None or kept is None:
        return job
    return replace(job, message=kept.reservation.message)


def _arbitrated(
    ledger: MigrationLedger, seen: SeenCluster, rules: ArbitrationRules, now_s: float, steps: list[JobStep]
) -> tuple[MigrationLedger, MigrationSnapshot | None, Sequence[str]]:
    waiting = [stored for stored in ledger.live() if stored.job.step is MigrationStep.WAITING]
    if not waiting or not is_due(ledger.state, rules.args.interval_s, now_s):
        return ledger, None, ()
    snapshot = with_plugins(snapshot_of(ledger, seen, rules, now_s), now_s, rules.sort_fns, rules.group_filters)
    plan = arbitrate(snapshot, now_s)
    state, jobs = after_plan(ledger, plan, seen, now_s)
    changed = {}
    for stored in waiting:
        after = jobs[stored.name]
        if after.job.step is not stored.job.step:
            steps.append(JobStep(stored.name, stored.job, after.job, _NO_VIEW, by_round=True))
            changed[stored.name] = _with_job(after, after.job, now_s)
    held = [stored.name for stored in waiting if is_held_by_other(stored, jobs[stored.name])]
    state = replace(state, buckets=_recent(state, rules, now_s))
    return MigrationLedger(state, {**jobs, **changed}, ledger.reservations), snapshot, held


def _dequeued(ledger: MigrationLedger, qps: float, now_s: float) -> MigrationLedger:
    queue = ledger.state.queue
    live = [name for name in queue.jobs if name in ledger.jobs and ledger.jobs[name].job.step is MigrationStep.ADMITTED]
    queue = replace(queue, jobs=tuple(live))
    if not live:
        return ledger if queue == ledger.state.queue else replace(ledger, state=replace(ledger.state, queue=queue))
    _, after = queue.dequeue(now_s, qps)
    return replace(ledger, state=replace(ledger.state, queue=after))


def _started(
    ledger: MigrationLedger, seen: SeenCluster, now_s: float, steps: list[JobStep]
) -> tuple[MigrationLedger, Sequence[GrantRequest]]:
    queued = frozenset(ledger.state.queue.jobs)
    ready = [stored.name for stored in ledger.live() if is_ready(stored, queued)]
    jobs, grant_requests = request_grants(
        ledger.jobs, ready, seen.pools, f"migration-{ledger.state.generation + 1}", now_s
    )
    for name in ready:
        stored = jobs[name]
        if stored.job.dry_run or stored.grant.is_usable(now_s):
            job = start(stored.job, now_s)
            steps.append(JobStep(name, stored.job, job, _NO_VIEW))
            jobs[name] = _with_job(stored, job, now_s)
    return (ledger if not ready else replace(ledger, jobs=jobs)), grant_requests


def _with_job(stored: StoredJob, job: MigrationJob, now_s: float) -> StoredJob:
    evicting_s, ended_s = stored.evicting_s, stored.ended_s
    if job.step is MigrationStep.EVICTING and evicting_s is None:
        evicting_s = now_s
    if job.step is MigrationStep.ENDED and ended_s is None:
        ended_s = now_s
    return replace(stored, job=job, evicting_s=evicting_s, ended_s=ended_s)


def _with_times(after: StoredJob, before: StoredJob, seen: SeenCluster, now_s: float) -> StoredJob:
    """With when the old pod was gone and the new one ready: when the server received it, or else now."""
    step, gone_s, ready_s = after.job.step, after.gone_s, after.ready_s
    if step is MigrationStep.REPLACING and gone_s is None:
        said = seen.evictions.get(after.eviction_key)
        gone_s = now_s if said is None else said.received_s
    if step is MigrationStep.ENDED and gone_s is not None and after.job.outcome in _RUNS_AGAIN and ready_s is None:
        started = seen.starts.get(before.start_key)
        ready_s = now_s if started is None else started.received_s
    return replace(after, gone_s=gone_s, ready_s=ready_s)


def _released(ledger: MigrationLedger) -> MigrationLedger:
    """Without the reservations of jobs that have ended, at once and not only in the next round."""
    kept = {
        name: stored
        for name, stored in ledger.reservations.items()
        if not stored.job or ledger.jobs[stored.job].is_live
    }
    return ledger if len(kept) == len(ledger.reservations) else replace(ledger, reservations=kept)


def _recent(
    state: ArbitrationState, rules: ArbitrationRules, now_s: float
) -> dict[tuple[LimiterScope, str], LimiterBucket]:
    """The buckets that are not full again."""
    kept = {}
    for (scope, name), bucket in state.buckets.items():
        limiter = rules.limits.object_limiters.get(scope)
        if limiter is not None and abs(now_s - bucket.at_s) < limiter.window_s * limiter.burst:
            kept[scope, name] = bucket
    return kept
