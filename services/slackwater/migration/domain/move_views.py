"""What is seen of one move: the MoveView from which its next transition follows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from zlib import crc32

from slackwater.migration.domain.sightings import SeenCluster, SeenStart
from slackwater.migration.domain.stored_jobs import MigrationLedger, StoredJob, StoredReservation
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.start_states import StartState
from slackwater.podmigration.jobs import MigrationJob, MigrationReason, MigrationStep, MoveOutcome
from slackwater.podmigration.lifecycle import (
    EvictionAnswer,
    MoveView,
    OldPod,
    Replacement,
    ReservationState,
    StartAnswer,
)
from slackwater.reservations.reservation import Reservation, ReservationPhase, ReservationReason

MOST_NAME: Final = 63
UNPLACED_S: Final = 30.0
"""A reservation that no node takes for so long ends its job."""
CLOCKS_S: Final = 2.0
"""By how much the clock of a node may be behind: a replacement that started so long before the eviction counts."""
KILL_S: Final = 10.0
"""Beyond its grace an eviction that began has ended."""
_BEFORE_EVICTION: Final = frozenset({MigrationStep.WAITING, MigrationStep.ADMITTED, MigrationStep.RESERVING})
_GONE: Final = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED, EvictionOutcome.ALREADY_GONE})
_RESERVATIONS: Final = {
    ReservationPhase.PENDING: ReservationState.PENDING,
    ReservationPhase.WAITING: ReservationState.PENDING,
    ReservationPhase.AVAILABLE: ReservationState.AVAILABLE,
    ReservationPhase.SUCCEEDED: ReservationState.CONSUMED,
    ReservationPhase.EXPIRED: ReservationState.EXPIRED,
    ReservationPhase.FAILED: ReservationState.EXPIRED,
}


def view_of_move(
    stored: StoredJob,
    reservations: Mapping[str, StoredReservation],
    claimed: Mapping[str, str],
    gone: Collection[str],
    seen: SeenCluster,
    grace_s: float,
    now_s: float,
) -> MoveView:
    """Returns what is seen of a move. `claimed`: as `claimed_pods` returns it; `gone`: as `gone_pods` does."""
    kept = reservations.get(reservation_name(stored))
    reservation = None if kept is None else kept.reservation
    started = seen.starts.get(stored.start_key) if stored.job.starts_replacement else None
    uid = "" if stored.job.starts_replacement else replacement_of(stored, reservation, seen, claimed)
    return MoveView(
        pod=OldPod.GONE if _was_moved(stored, gone) else confirmed_pod(stored, seen, grace_s),
        reservation=ReservationState.ABSENT if reservation is None else reservation_state(reservation, now_s),
        reservation_node="" if reservation is None else reservation.placed_on,
        eviction=eviction_answer(stored, seen, grace_s),
        eviction_detail=_eviction_detail(stored, seen),
        replacement=_replacement(uid, seen),
        replacement_uid=uid if started is None else started.pod_uid,
        start=start_answer(started),
        start_attempt=stored.job.start_attempt,
        replacement_detail=_unready_detail(uid, seen),
        start_detail="" if started is None else started.detail or started.state.value,
        can_return=stored.job.starts_replacement and can_return(stored, seen),
    )


def _eviction_detail(stored: StoredJob, seen: SeenCluster) -> str:
    said = seen.evictions.get(stored.eviction_key)
    return "" if said is None else said.detail


def _replacement(uid: str, seen: SeenCluster) -> Replacement:
    if not uid:
        return Replacement.ABSENT
    pod = seen.pods.get(uid)
    return Replacement.READY if pod is None or pod.is_ready else Replacement.BOUND


def _unready_detail(uid: str, seen: SeenCluster) -> str:
    """Of a new pod that is not ready: which, where and why."""
    pod = seen.pods.get(uid)
    if pod is None or pod.is_ready:
        return ""
    why = f": {pod.unready_because}" if pod.unready_because else ""
    return f"{pod.pod.namespace}/{pod.pod.name} on {pod.node} is not ready{why}"


def start_answer(started: SeenStart | None) -> StartAnswer:
    """Returns what the agent answered to the present start."""
    if started is None:
        return StartAnswer.NONE
    answers = {StartState.STARTING: StartAnswer.STARTING, StartState.READY: StartAnswer.READY}
    return answers.get(started.state, StartAnswer.FAILED)


def can_return(stored: StoredJob, seen: SeenCluster) -> bool:
    """Whether the node that the pod came from answers, and has the same file of the workload still."""
    node = stored.job.node
    return node in seen.fresh and seen.offers(node, stored.pod.workload) == stored.pod.digest


def reservation_name(stored: StoredJob) -> str:
    """Returns the name of the reservation of a job: at most 63 characters."""
    name = f"pmj-{stored.job.id}"
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 9]}-{crc32(name.encode()):08x}"


def old_pod(stored: StoredJob, seen: SeenCluster) -> OldPod:
    """Returns whether the pod runs. Only a report that is newer than the one that showed it shows that it is gone."""
    pod, node = seen.pods.get(stored.job.pod), stored.job.node
    if pod is not None:
        return OldPod.RUNNING if pod.is_fresh else OldPod.UNKNOWN
    if not node:
        return OldPod.GONE
    is_newer = seen.reported_s.get(node, 0.0) > stored.pod.reported_s
    return OldPod.GONE if is_newer and node in seen.fresh else OldPod.UNKNOWN


def confirmed_pod(stored: StoredJob, seen: SeenCluster, grace_s: float) -> OldPod:
    """Returns whether the pod runs. Where an eviction is withdrawn, only a report from after the end of one that began
    just before its deadline shows that it does."""
    pod, until_s = old_pod(stored, seen), stored.job.evict_by_s
    if pod is not OldPod.RUNNING or stored.job.step is not MigrationStep.WITHDRAWING or until_s is None:
        return pod
    is_late = seen.reported_s.get(stored.job.node, 0.0) >= until_s + grace_s + KILL_S
    return pod if is_late else OldPod.UNKNOWN


def reservation_state(reservation: Reservation, now_s: float) -> ReservationState:
    """Returns the state of a reservation as a move sees it."""
    unplaced = reservation.phase is ReservationPhase.PENDING and now_s - reservation.created_s >= UNPLACED_S
    if unplaced and reservation.reason is ReservationReason.UNSCHEDULABLE:
        return ReservationState.UNSCHEDULABLE
    return _RESERVATIONS[reservation.phase]


def eviction_answer(stored: StoredJob, seen: SeenCluster, grace_s: float) -> EvictionAnswer:
    """Returns what the agent answered to the present attempt.

    A withdrawal is confirmed by an answer that the eviction did not happen; or by the agent's answer to the withdrawing
    document, and a report from so long after it that an eviction under way would have ended, which shows the pod.
    """
    said = seen.evictions.get(stored.eviction_key)
    withdrawing = stored.job.step is MigrationStep.WITHDRAWING
    if said is not None:
        outcome = EvictionOutcome(said.outcome)
        if outcome in _GONE:
            return EvictionAnswer.COMPLETED
        if outcome is EvictionOutcome.FAILED:
            return EvictionAnswer.NONE
        if withdrawing:
            return EvictionAnswer.WITHDRAWN
        return EvictionAnswer.REFUSED if outcome is EvictionOutcome.REFUSED else EvictionAnswer.NOT_YET
    if not withdrawing or not stored.withdrawn_generation:
        return EvictionAnswer.NONE
    generation, observed_s = seen.observed.get(stored.job.node, (0, 0.0))
    reported_s = seen.reported_s.get(stored.job.node, 0.0)
    waited = reported_s >= observed_s + grace_s + KILL_S
    runs = old_pod(stored, seen) is OldPod.RUNNING
    return (
        EvictionAnswer.WITHDRAWN
        if generation >= stored.withdrawn_generation and waited and runs
        else (EvictionAnswer.NONE)
    )


def claimed_pods(ledger: MigrationLedger) -> dict[str, str]:
    """Returns the pods that are replacements, or that took the reservation of a move, with the ids of their jobs: none
    stands in for two."""
    bound = {
        uid: ledger.jobs[kept.job].job.id
        for kept in ledger.reservations.values()
        if kept.job in ledger.jobs
        for uid in kept.reservation.allocated
    }
    return bound | {stored.job.replacement: stored.job.id for stored in ledger.jobs.values() if stored.job.replacement}


def gone_pods(ledger: MigrationLedger) -> frozenset[str]:
    """Returns the pods that are gone by what jobs which have ended say: those that they moved, and those that they
    started and that failed."""
    ended = [stored for stored in ledger.jobs.values() if not stored.is_live]
    moved = {stored.job.pod for stored in ended if stored.gone_s is not None}
    return frozenset(moved | {stored.job.replacement for stored in ended if _start_failed(stored.job)})


def _start_failed(job: MigrationJob) -> bool:
    return job.reason is MigrationReason.FAILED_START and job.outcome is MoveOutcome.REPLACEMENT_PENDING


def _was_moved(stored: StoredJob, gone: Collection[str]) -> bool:
    """Whether another move ended the pod, although no report since shows it. An eviction would be answered with
    `already_gone`, and a second pod be started for it."""
    return stored.job.pod in gone and stored.job.step in _BEFORE_EVICTION


def replacement_of(
    stored: StoredJob, reservation: Reservation | None, seen: SeenCluster, claimed: Mapping[str, str]
) -> str:
    """Returns the uid of the pod in place of the old one: the owner of its reservation, or else the first of its
    workload that started after the eviction was declared. Empty: none is seen."""
    if reservation is not None:
        for uid in sorted(reservation.allocated):
            if uid in seen.pods:
                return uid
    if stored.job.replacement in seen.pods:
        return stored.job.replacement
    return min(candidates(stored, seen, claimed), default=(0.0, ""))[1]


def candidates(stored: StoredJob, seen: SeenCluster, claimed: Mapping[str, str]) -> list[tuple[float, str]]:
    """Returns start and uid of the pods of the workload that may be the replacement."""
    if stored.job.starts_replacement:
        started = seen.pods.get(stored.job.replacement)
        return [] if started is None else [(started.pod.started_at.timestamp(), started.pod.uid)]
    if stored.evicting_s is None or not stored.pod.workload:
        return []
    found = []
    for uid in seen.by_workload.get(stored.pod.workload, ()):
        pod = seen.pods[uid].pod
        started_s = pod.started_at.timestamp()
        is_new = started_s >= stored.evicting_s - CLOCKS_S and pod.namespace == stored.pod.namespace
        is_free = claimed.get(uid, stored.job.id) == stored.job.id
        if uid != stored.job.pod and is_free and is_new:
            found.append((started_s, uid))
    return found
