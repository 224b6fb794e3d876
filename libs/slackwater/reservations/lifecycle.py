"""The state machine of a reservation: from what is seen and a time to the next state. Pure.

Pending -> Waiting | Available -> Succeeded; Expired and Failed from any of the first three. A phase never goes back.
Invariants, checked by tests and the simulated world: `broken_invariants`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from slackwater.descheduling.placement import PlacedPod
from slackwater.model.records import record
from slackwater.reservations.reservation import (
    ENDED,
    PLACED,
    Reservation,
    ReservationPhase,
    ReservationReason,
)

_FOLLOWING = {
    ReservationPhase.PENDING: {ReservationPhase.WAITING, ReservationPhase.AVAILABLE},
    ReservationPhase.WAITING: {ReservationPhase.AVAILABLE},
    ReservationPhase.AVAILABLE: {ReservationPhase.SUCCEEDED},
}


@record(frozen=True, slots=True)
class ReservationView:
    """What is seen of a placed reservation."""

    has_node: bool = True
    has_room: bool = True
    """Whether its node has free what it keeps, beside all others."""
    running: Collection[str] | None = None
    """UIDs of the pods on the node; None: the node does not answer, so that no owner is taken for gone."""


def advance(reservation: Reservation, view: ReservationView, now_s: float) -> Reservation | None:
    """Returns the reservation after the next transition that this view allows; None where nothing changes."""
    if reservation.has_ended:
        return None
    if reservation.expires_s is not None and now_s >= reservation.expires_s:
        return _in_phase(reservation, ReservationPhase.EXPIRED, ReservationReason.EXPIRED, now_s)
    if reservation.phase not in PLACED:
        return None
    if not view.has_node:
        message = f"node {reservation.placed_on} is gone"
        return _in_phase(reservation, ReservationPhase.FAILED, ReservationReason.NODE_GONE, now_s, message)
    if reservation.phase is ReservationPhase.WAITING and view.has_room:
        return _in_phase(reservation, ReservationPhase.AVAILABLE, ReservationReason.AVAILABLE, now_s)
    return _released(reservation, view)


def place(reservation: Reservation, node: str, now_s: float, *, has_room: bool = True) -> Reservation:
    """Returns a pending reservation as placed on a node; one that is not pending stays as it is."""
    if reservation.phase is not ReservationPhase.PENDING:
        return reservation
    placed = replace(reservation, placed_on=node)
    if has_room:
        return _in_phase(placed, ReservationPhase.AVAILABLE, ReservationReason.AVAILABLE, now_s)
    return _in_phase(placed, ReservationPhase.WAITING, ReservationReason.INSUFFICIENT, now_s)


def refuse(reservation: Reservation, message: str) -> Reservation:
    """Returns a pending reservation with why no node takes it; it is tried again."""
    if reservation.phase is not ReservationPhase.PENDING:
        return reservation
    return replace(reservation, reason=ReservationReason.UNSCHEDULABLE, message=message)


def bind(reservation: Reservation, pod: PlacedPod, now_s: float) -> Reservation:
    """Returns the reservation after an owner was bound; one that may not have it stays as it is. A pod takes of it what
    it requests, as far as there is some left; the remainder is of the node."""
    if not can_bind(reservation, pod) or pod.uid in reservation.allocated:
        return reservation
    left = reservation.unallocated()
    taken = {resource: min(amount, left.get(resource, 0)) for resource, amount in pod.requests.items()}
    bound = replace(reservation, allocated={**reservation.allocated, pod.uid: taken})
    if not reservation.allocate_once:
        return bound
    return _in_phase(bound, ReservationPhase.SUCCEEDED, ReservationReason.SUCCEEDED, now_s)


def can_bind(reservation: Reservation, pod: PlacedPod) -> bool:
    """Whether a pod on its node may use it now."""
    return (
        reservation.phase is ReservationPhase.AVAILABLE
        and pod.node == reservation.placed_on
        and reservation.allows(pod)
        and (reservation.allocate_once or any(reservation.unallocated().values()))
    )


def nominate(pod: PlacedPod, reservations: Sequence[Reservation]) -> Reservation | None:
    """Returns the reservation that a pod uses: the lowest order above 0, then the one that is used most, then by name;
    None where no one may. Used most first, so that others stay whole."""
    return min(
        (reservation for reservation in reservations if can_bind(reservation, pod)), key=_preference, default=None
    )


def _preference(reservation: Reservation) -> tuple[float, float, str]:
    requests, left = reservation.template.requests, reservation.unallocated()
    shares = [1 - left[name] / amount for name, amount in requests.items() if amount > 0]
    order = float(reservation.order) if reservation.order > 0 else float("inf")
    return order, -max(shares, default=0.0), reservation.name


def broken_invariants(before: Reservation, after: Reservation) -> Iterator[str]:
    """Yields what a change of a reservation breaks.

    1. Phases go forward only; an ended reservation never changes, and keeps nothing.
    2. The node is chosen once.
    3. Owners take no more than was requested, and one that ends with its first owner has one at most.
    """
    if before.has_ended and after != before:
        yield "an ended reservation changed"
    moves_on = after.phase in _FOLLOWING.get(before.phase, ()) or after.phase in (
        ReservationPhase.EXPIRED,
        ReservationPhase.FAILED,
    )
    if after.phase is not before.phase and (before.has_ended or not moves_on):
        yield f"{before.phase} went to {after.phase}"
    if before.placed_on not in ("", after.placed_on):
        yield f"it went from {before.placed_on} to {after.placed_on}"
    if after.phase in PLACED and not after.placed_on:
        yield f"it is {after.phase} on no node"
    if after.has_ended and after.held():
        yield "an ended reservation keeps something"
    for resource, amount in after.template.requests.items():
        if sum(taken.get(resource, 0) for taken in after.allocated.values()) > amount:
            yield f"owners took more {resource} than was requested"
    if after.allocate_once and len(after.allocated) > 1:
        yield "a reservation for one owner has several"


def _released(reservation: Reservation, view: ReservationView) -> Reservation | None:
    """Returns the reservation without owners that have ended; what they took is kept again."""
    if view.running is None:
        return None
    left = {uid: taken for uid, taken in reservation.allocated.items() if uid in view.running}
    return None if len(left) == len(reservation.allocated) else replace(reservation, allocated=left)


def _in_phase(
    reservation: Reservation, phase: ReservationPhase, reason: ReservationReason, now_s: float, message: str = ""
) -> Reservation:
    assert reservation.phase not in ENDED  # noqa: S101 - an ended reservation never changes
    return replace(reservation, phase=phase, reason=reason, message=message, since_s=now_s)
