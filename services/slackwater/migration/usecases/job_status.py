"""What documents show of jobs and reservations."""

from __future__ import annotations

from datetime import UTC, datetime

from slackwater.migration.domain.move_views import UNPLACED_S, reservation_name
from slackwater.migration.domain.stored_jobs import StoredJob, StoredReservation
from slackwater.podmigration.documents import (
    JobHoldStatus,
    MigrationConditionStatus,
    PodMigrationJobStatus,
)
from slackwater.podmigration.jobs import MigrationCondition
from slackwater.reservations.documents import ReservationStatus
from slackwater.reservations.reservation import ReservationPhase

_EXPLAINED = frozenset({MigrationCondition.ADMITTED, MigrationCondition.BOUND_POD_READY})


def job_status(stored: StoredJob) -> PodMigrationJobStatus:
    """Returns the status of a job."""
    job, pod, hold = stored.job, stored.pod, stored.hold
    return PodMigrationJobStatus(
        phase=job.phase.value,
        step=job.step.value,
        reason=job.reason.value,
        message=job.message,
        from_node=job.node,
        node=job.target_node,
        reservation=reservation_name(stored) if job.reservation_seen else "",
        replacement=job.replacement,
        outcome="" if job.outcome is None else job.outcome.value,
        pod=f"{pod.namespace}/{pod.name}" if pod.name else job.pod,
        workload=pod.workload,
        source=stored.request.source,
        held_by=None
        if hold is None
        else JobHoldStatus(
            filter=hold.filter.value,
            scope=hold.scope,
            count=hold.count,
            limit=hold.limit,
            since=time_text(hold.since_s),
        ),
        submitted_at=time_text(job.submitted_s),
        ended_at=time_text(stored.ended_s),
        downtime_seconds=None if stored.downtime_s is None else round(stored.downtime_s, 3),
        conditions=tuple(
            MigrationConditionStatus(
                type=name.value,
                status="True" if state.status else "False",
                reason=state.reason.value,
                message=job.message if name in _EXPLAINED and not state.status else "",
                since=time_text(state.since_s),
            )
            for name, state in job.conditions.items()
        ),
    )


def reservation_status(stored: StoredReservation) -> ReservationStatus:
    """Returns the status of a reservation."""
    reservation = stored.reservation
    return ReservationStatus(
        phase=reservation.phase.value,
        reason=reservation.reason.value,
        message=_waiting_message(stored),
        node_name=reservation.placed_on,
        job=stored.job,
        current_owners=tuple(sorted(reservation.allocated)),
        since=time_text(reservation.since_s),
    )


def _waiting_message(stored: StoredReservation) -> str:
    """What keeps it off the nodes, and until when a move waits for it."""
    reservation = stored.reservation
    if not stored.job or reservation.phase is not ReservationPhase.PENDING:
        return reservation.message
    until = f"the move waits until {time_text(reservation.created_s + UNPLACED_S)}"
    return f"{reservation.message}; {until}" if reservation.message else until


def time_text(at_s: float | None) -> str:
    """Returns a time as RFC 3339; empty for none."""
    return "" if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
