"""The state machine of a migration: from a job, what is seen of it, and a time to the next transition. Pure.

The caller persists a transition first, and then lets the world converge to `desired_state` of the persisted job. What a
crash interrupts is therefore repeated by the next process, and each part of the desired state is idempotent by the id
of the job. In the form of Patroni: one decision per cycle, from observed state only, with the invariants written down
(lifecycle_invariants) and every interruption replayed (tests/unit/podmigration).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

from slackwater.model.records import record
from slackwater.podmigration.jobs import (
    CONFIRM_S,
    DEFAULT_TTL_S,
    MOST_READY_S,
    START_S,
    UNANSWERED_S,
    ConditionState,
    MigrationCondition,
    MigrationJob,
    MigrationMode,
    MigrationPhase,
    MigrationReason,
    MigrationStep,
    MoveOutcome,
)
from slackwater.podmigration.limits import JobHold


class OldPod(StrEnum):
    """The pod that is to move; by its UID, so that a new pod of the same name is not taken for it."""

    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"
    """Its node does not answer."""


class ReservationState(StrEnum):
    """The reservation of the job."""

    ABSENT = "absent"
    PENDING = "pending"
    AVAILABLE = "available"
    CONSUMED = "consumed"
    UNSCHEDULABLE = "unschedulable"
    EXPIRED = "expired"


class EvictionAnswer(StrEnum):
    """What the agent answered to the eviction of the job."""

    NONE = "none"
    NOT_YET = "not_yet"
    """It did not begin in time, because of a disruption budget or an error; it is asked again."""
    REFUSED = "refused"
    """For good: the pod is protected, two budgets select it, or the right to evict is missing."""
    COMPLETED = "completed"
    WITHDRAWN = "withdrawn"
    """The agent saw the withdrawal before it began, and will not evict."""


class Replacement(StrEnum):
    """The pod in place of the old one."""

    ABSENT = "absent"
    BOUND = "bound"
    READY = "ready"


class StartAnswer(StrEnum):
    """What the agent answered to a start of the replacement."""

    NONE = "none"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    """Failed, refused or expired: nothing of it runs, and nothing will."""


@record(frozen=True, slots=True)
class MoveView:
    """What is seen of a move at a time."""

    pod: OldPod = OldPod.RUNNING
    reservation: ReservationState = ReservationState.ABSENT
    reservation_node: str = ""
    eviction: EvictionAnswer = EvictionAnswer.NONE
    eviction_detail: str = ""
    """Why it was refused, in the words of the agent or the API server."""
    replacement: Replacement = Replacement.ABSENT
    replacement_uid: str = ""
    replacement_detail: str = ""
    """Of one that is not ready, in the words of its node."""
    start: StartAnswer = StartAnswer.NONE
    start_attempt: int = 0
    """Which start the answer is about."""
    start_detail: str = ""
    """In the words of the agent."""
    can_return: bool = False
    """Whether the old node answers and offers the workload still."""


@record(frozen=True, slots=True)
class DesiredMove:
    """What should exist for a job. Whatever else exists under its id is removed."""

    reservation: bool = False
    eviction: bool = False
    """The agent begins it before `evict_by_s` of the job, or not at all."""
    replacement: bool = False


_Ended = tuple[MigrationPhase, MigrationReason, MoveOutcome]


def desired_state(job: MigrationJob) -> DesiredMove:
    """Returns what should exist, from the persisted job alone."""
    if job.step is MigrationStep.ENDED:
        kept = job.outcome in (MoveOutcome.MOVED, MoveOutcome.RETURNED, MoveOutcome.REPLACEMENT_PENDING)
        return DesiredMove(replacement=kept and job.starts_replacement)
    reserves = job.mode is MigrationMode.RESERVATION_FIRST
    return DesiredMove(
        reservation=reserves and job.step not in (MigrationStep.WAITING, MigrationStep.ADMITTED),
        eviction=job.step is MigrationStep.EVICTING,
        replacement=job.step is MigrationStep.REPLACING and job.starts_replacement,
    )


def admit(job: MigrationJob, now_s: float) -> MigrationJob:
    """Returns the job as arbitration admitted it; one that is not waiting stays as it is."""
    if job.step is not MigrationStep.WAITING:
        return job
    condition = {MigrationCondition.ADMITTED: ConditionState(True, MigrationReason.NONE, now_s)}
    return replace(
        job, step=MigrationStep.ADMITTED, admitted_s=now_s, message="", conditions={**job.conditions, **condition}
    )


def refuse(job: MigrationJob, message: str) -> MigrationJob:
    """Returns the job as arbitration refused it for good; one that is not waiting stays as it is."""
    if job.step is not MigrationStep.WAITING:
        return job
    return _end(job, MigrationPhase.FAILED, MigrationReason.FORBIDDEN, MoveOutcome.OLD_POD_RUNS, message)


def hold(job: MigrationJob, held: JobHold) -> MigrationJob:
    """Returns the waiting job with what holds it, as its condition."""
    if job.step is not MigrationStep.WAITING:
        return job
    condition = {MigrationCondition.ADMITTED: ConditionState(False, MigrationReason.NONE, held.since_s)}
    return replace(job, message=held.message, conditions={**job.conditions, **condition})


def start(job: MigrationJob, now_s: float) -> MigrationJob:
    """Returns the job as the queue started it; one that is not admitted, or is paused, stays as it is."""
    if job.step is not MigrationStep.ADMITTED or job.paused or job.abort_requested:
        return job
    if job.dry_run:
        return _end(job, MigrationPhase.SUCCEEDED, MigrationReason.DRY_RUN, MoveOutcome.OLD_POD_RUNS)
    running = replace(job, phase=MigrationPhase.RUNNING)
    if job.mode is MigrationMode.RESERVATION_FIRST:
        return replace(running, step=MigrationStep.RESERVING)
    return _with_eviction(running, now_s)


def settle(job: MigrationJob, view: MoveView, now_s: float) -> Iterator[MigrationJob]:
    """Yields the job after each transition that this view allows, until there is none. Persist each, or the last."""
    while (following := advance(job, view, now_s)) is not None:
        yield following
        job = following


def advance(job: MigrationJob, view: MoveView, now_s: float) -> MigrationJob | None:
    """Returns the job after the next transition; None where nothing changes."""
    match job.step:
        case MigrationStep.ENDED:
            return None
        case MigrationStep.WAITING | MigrationStep.ADMITTED:
            return _ended_early(job, view, now_s)
        case MigrationStep.RESERVING:
            return _ended_early(job, view, now_s) or _reserving(job, view, now_s)
        case MigrationStep.EVICTING:
            return _evicting(job, view, now_s)
        case MigrationStep.WITHDRAWING:
            return _withdrawing(job, view, now_s)
        case MigrationStep.REPLACING:
            return _replacing(job, view, now_s)


def _ended_early(job: MigrationJob, view: MoveView, now_s: float) -> MigrationJob | None:
    """Before an eviction is declared, an end leaves the old pod as it is."""
    left = MoveOutcome.POD_VANISHED if view.pod is OldPod.GONE else MoveOutcome.OLD_POD_RUNS
    if not job.pod:
        return _end(job, MigrationPhase.FAILED, MigrationReason.INVALID_POD_REF, MoveOutcome.POD_VANISHED)
    if view.pod is OldPod.GONE:
        return _end(job, MigrationPhase.FAILED, MigrationReason.MISSING_POD, left)
    if job.abort_requested:
        return _end(job, MigrationPhase.ABORTED, MigrationReason.ABORTED, left)
    if _is_late(job, now_s):
        return _end(job, MigrationPhase.FAILED, MigrationReason.TIMEOUT, left, job.message)
    return None


def _reserving(job: MigrationJob, view: MoveView, now_s: float) -> MigrationJob | None:
    failure = _reservation_failure(job, view)
    if failure is not None:
        job = _with_condition(job, MigrationCondition.RESERVATION_SCHEDULED, False, failure, now_s) or job
        return _end(job, MigrationPhase.FAILED, failure, MoveOutcome.OLD_POD_RUNS)
    if view.reservation is ReservationState.ABSENT:
        return None
    if not job.reservation_seen:
        seen = replace(job, reservation_seen=True)
        return _with_condition(seen, MigrationCondition.RESERVATION_CREATED, True, MigrationReason.NONE, now_s) or seen
    if view.reservation is ReservationState.PENDING or job.paused or view.pod is OldPod.UNKNOWN:
        return None
    reserved = _with_eviction(replace(job, target_node=view.reservation_node), now_s)
    return (
        _with_condition(reserved, MigrationCondition.RESERVATION_SCHEDULED, True, MigrationReason.NONE, now_s)
        or reserved
    )


def _reservation_failure(job: MigrationJob, view: MoveView) -> MigrationReason | None:
    if job.mode is MigrationMode.EVICT_DIRECTLY:
        return None
    match view.reservation:
        case ReservationState.ABSENT:
            return MigrationReason.MISSING_RESERVATION if job.reservation_seen else None
        case ReservationState.UNSCHEDULABLE:
            return MigrationReason.UNSCHEDULABLE
        case ReservationState.EXPIRED:
            return MigrationReason.RESERVATION_EXPIRED
        case ReservationState.CONSUMED:
            return MigrationReason.FORBIDDEN
        case ReservationState.AVAILABLE if view.reservation_node == job.node:
            return MigrationReason.FORBIDDEN
    return None


def _evicting(job: MigrationJob, view: MoveView, now_s: float) -> MigrationJob | None:
    if view.eviction is EvictionAnswer.COMPLETED or (view.pod is OldPod.GONE and not job.starts_replacement):
        return _replaced_from_now(job, now_s)
    failure = _reservation_failure(job, view)
    if job.abort_requested:
        failure = MigrationReason.ABORTED
    elif job.evict_by_s is not None and now_s >= job.evict_by_s:
        failure = MigrationReason.TIMEOUT
    if failure is not None:
        return replace(job, step=MigrationStep.WITHDRAWING, reason=failure)
    if view.eviction is EvictionAnswer.REFUSED:
        refused = _with_condition(job, MigrationCondition.EVICTION, False, MigrationReason.FAILED_EVICT, now_s) or job
        left, why = MoveOutcome.OLD_POD_RUNS, view.eviction_detail
        return _end(refused, MigrationPhase.FAILED, MigrationReason.FAILED_EVICT, left, why)
    waits = view.eviction is EvictionAnswer.NOT_YET
    reason = MigrationReason.FAILED_EVICT if waits else MigrationReason.EVICTING
    return _with_condition(job, MigrationCondition.EVICTION, False, reason, now_s)


def _withdrawing(job: MigrationJob, view: MoveView, now_s: float) -> MigrationJob | None:
    phase = MigrationPhase.ABORTED if job.reason is MigrationReason.ABORTED else MigrationPhase.FAILED
    is_over = job.evict_by_s is not None and now_s >= job.evict_by_s + CONFIRM_S
    if job.starts_replacement and (view.eviction is EvictionAnswer.COMPLETED or (is_over and view.pod is OldPod.GONE)):
        return _replaced_from_now(job, now_s)  # the withdrawal came too late: without a start nothing would run
    if job.starts_replacement and view.pod is OldPod.GONE:
        is_withdrawn = view.eviction is EvictionAnswer.WITHDRAWN
        return _end(job, phase, job.reason, MoveOutcome.POD_VANISHED) if is_withdrawn else None
    if view.pod is OldPod.GONE or view.eviction is EvictionAnswer.COMPLETED:
        if view.replacement is Replacement.READY:
            moved = replace(job, replacement=view.replacement_uid)
            return _end(moved, phase, job.reason, MoveOutcome.MOVED)
        return _end(job, phase, job.reason, MoveOutcome.REPLACEMENT_PENDING)
    if view.eviction is EvictionAnswer.WITHDRAWN:
        return _end(job, phase, job.reason, MoveOutcome.OLD_POD_RUNS)
    if is_over:
        if view.pod is OldPod.RUNNING:
            return _end(job, phase, job.reason, MoveOutcome.OLD_POD_RUNS)
        said = f"{job.node} has not said whether it ended the pod"
        return _end(job, phase, job.reason, MoveOutcome.UNCONFIRMED, said)
    return None


def _replacing(job: MigrationJob, view: MoveView, now_s: float) -> MigrationJob | None:
    if job.starts_replacement:
        return _starting(job, view, now_s)
    if view.replacement is Replacement.READY:
        done = _with_condition(job, MigrationCondition.BOUND_POD_READY, True, MigrationReason.NONE, now_s) or job
        done = replace(done, replacement=view.replacement_uid)
        return _end(done, MigrationPhase.SUCCEEDED, MigrationReason.COMPLETE, MoveOutcome.MOVED)
    if job.mode is MigrationMode.EVICT_DIRECTLY:
        return _end(job, MigrationPhase.SUCCEEDED, MigrationReason.COMPLETE, MoveOutcome.EVICTED)
    if job.abort_requested:
        return _end(job, MigrationPhase.ABORTED, MigrationReason.ABORTED, MoveOutcome.REPLACEMENT_PENDING)
    if _is_late(job, now_s):
        said = view.replacement_detail or "no new pod has come"
        return _end(job, MigrationPhase.FAILED, MigrationReason.TIMEOUT, MoveOutcome.REPLACEMENT_PENDING, said)
    if view.replacement is Replacement.ABSENT:
        condition, reason = MigrationCondition.POD_BOUND_RESERVATION, MigrationReason.WAIT_FOR_BIND
        return _with_condition(job, condition, False, reason, now_s)
    bound = replace(job, replacement=view.replacement_uid, message=view.replacement_detail)
    condition, reason = MigrationCondition.BOUND_POD_READY, MigrationReason.WAIT_FOR_READY
    return _with_condition(bound, condition, False, reason, now_s) or (bound if bound != job else None)


def _starting(job: MigrationJob, view: MoveView, now_s: float) -> MigrationJob | None:
    """Only what the agent answers to the present start counts. An abort ends nothing here: the old pod is gone, and
    without the start nothing would run. A start that is not answered is never declared elsewhere, because it may run.
    """
    answer = view.start if view.start_attempt == job.start_attempt else StartAnswer.NONE
    if answer is StartAnswer.READY:
        return _started(replace(job, replacement=view.replacement_uid), now_s)
    if answer is StartAnswer.FAILED:
        said = f"the start on {job.start_node} failed: {view.start_detail}" if view.start_detail else ""
        message = "; ".join(words for words in (job.message, said) if words)
        if job.start_attempt == 1 and job.start_node != job.node and view.can_return:
            return _with_start(replace(job, message=message), job.node, now_s)
        phase = MigrationPhase.ABORTED if job.abort_requested else MigrationPhase.FAILED
        return _end(job, phase, MigrationReason.FAILED_START, MoveOutcome.REPLACEMENT_PENDING, message)
    patience_s = UNANSWERED_S if answer is StartAnswer.NONE else MOST_READY_S
    if job.start_by_s is not None and now_s >= job.start_by_s + patience_s:
        message = f"{job.start_node} has not said what became of the start: it may run there"
        return _end(job, MigrationPhase.FAILED, MigrationReason.TIMEOUT, MoveOutcome.REPLACEMENT_PENDING, message)
    if answer is StartAnswer.NONE:
        condition, reason = MigrationCondition.POD_BOUND_RESERVATION, MigrationReason.WAIT_FOR_BIND
        return _with_condition(job, condition, False, reason, now_s)
    bound = replace(job, replacement=view.replacement_uid)
    condition, reason = MigrationCondition.BOUND_POD_READY, MigrationReason.WAIT_FOR_READY
    return _with_condition(bound, condition, False, reason, now_s) or (bound if bound != job else None)


def _started(job: MigrationJob, now_s: float) -> MigrationJob:
    done = _with_condition(job, MigrationCondition.BOUND_POD_READY, True, MigrationReason.NONE, now_s) or job
    if job.start_attempt > 1:
        return _end(done, MigrationPhase.FAILED, MigrationReason.FAILED_START, MoveOutcome.RETURNED, job.message)
    if job.abort_requested:
        said = "the old pod had ended before the abort"
        return _end(done, MigrationPhase.ABORTED, MigrationReason.ABORTED, MoveOutcome.MOVED, said)
    return _end(done, MigrationPhase.SUCCEEDED, MigrationReason.COMPLETE, MoveOutcome.MOVED)


def _with_start(job: MigrationJob, node: str, now_s: float) -> MigrationJob:
    by_s = max(now_s + START_S, job.deadline_s or 0.0)
    return replace(job, start_attempt=job.start_attempt + 1, start_node=node, start_by_s=by_s, replacement="")


def _with_eviction(job: MigrationJob, now_s: float) -> MigrationJob:
    evict_by_s = now_s + DEFAULT_TTL_S if job.deadline_s is None else job.deadline_s
    return replace(job, step=MigrationStep.EVICTING, evict_by_s=evict_by_s)


def _replaced_from_now(job: MigrationJob, now_s: float) -> MigrationJob:
    gone = replace(job, step=MigrationStep.REPLACING)
    if job.starts_replacement:
        gone = _with_start(gone, job.target_node or job.node, now_s)
    return _with_condition(gone, MigrationCondition.EVICTION, True, MigrationReason.EVICT_COMPLETE, now_s) or gone


def _is_late(job: MigrationJob, now_s: float) -> bool:
    if job.step is MigrationStep.WAITING:
        return job.wait_s > 0 and now_s >= job.submitted_s + job.wait_s
    return job.deadline_s is not None and now_s >= job.deadline_s


def _with_condition(
    job: MigrationJob, condition: MigrationCondition, status: bool, reason: MigrationReason, now_s: float
) -> MigrationJob | None:
    """Returns the job with the condition; None where it has it already."""
    earlier = job.conditions.get(condition)
    if earlier is not None and earlier.status is status and earlier.reason is reason:
        return None
    state = ConditionState(status, reason, now_s)
    return replace(job, reason=reason, conditions={**job.conditions, condition: state})


def _end(
    job: MigrationJob, phase: MigrationPhase, reason: MigrationReason, outcome: MoveOutcome, message: str = ""
) -> MigrationJob:
    return replace(job, step=MigrationStep.ENDED, phase=phase, reason=reason, outcome=outcome, message=message)
