"""What becomes of reservations in a round: made for jobs and documents, placed, bound, and released."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from slackwater.descheduling.placement import PlacedPod, expected_peak
from slackwater.migration.domain.move_views import candidates, claimed_pods, reservation_name
from slackwater.migration.domain.node_rooms import yields
from slackwater.migration.domain.sightings import SeenCluster
from slackwater.migration.domain.stored_jobs import MigrationLedger, StoredJob, StoredReservation
from slackwater.model.placement_rules import NO_RULES
from slackwater.model.records import record
from slackwater.model.workload_labels import OFFERED_LABEL, offered_label
from slackwater.podmigration.jobs import MigrationStep
from slackwater.podmigration.lifecycle import desired_state
from slackwater.reservations.lifecycle import ReservationView, advance, bind, nominate, place, refuse
from slackwater.reservations.placement import NodeRoom, ReservationPlacement, has_room
from slackwater.reservations.reservation import Reservation, ReservationOwner, ReservationPhase
from slackwater.reservations.room_index import RoomIndex, in_order


@record(frozen=True, slots=True)
class AskedReservation:
    """A reservation that a document asks for, and the generation of that document. Its ttl counts from when it is seen
    first, by the server's clock."""

    reservation: Reservation
    generation: int
    ttl_s: float | None = None

    def begun(self, now_s: float) -> StoredReservation:
        """Returns the pending reservation."""
        expires_s = self.reservation.expires_s if self.ttl_s is None else now_s + self.ttl_s
        begun = replace(self.reservation, created_s=now_s, since_s=now_s, expires_s=expires_s)
        return StoredReservation(begun, generation=self.generation)


Rooms = Callable[[Sequence[Reservation], bool], Sequence[NodeRoom]]
"""Makes what is left on each node beside these reservations; with True, the load of lower tiers counts for nothing."""
PodsOf = Callable[[str], Sequence[PlacedPod] | None]
"""The pods on a node; None where it does not answer or is not known."""


def reservations_after(
    ledger: MigrationLedger,
    asked: Mapping[str, AskedReservation],
    gone: Collection[str],
    seen: SeenCluster,
    rooms: Rooms,
    pods_of: PodsOf,
    known_nodes: Collection[str],
    now_s: float,
) -> dict[str, StoredReservation]:
    """Returns all reservations after a round. Rows of ended ones that a document asks for stay, to be shown."""
    kept = _wanted(ledger, asked, gone, now_s)
    kept = {name: _advanced(stored, rooms, pods_of, known_nodes, kept, now_s) for name, stored in kept.items()}
    kept = _placed(kept, rooms, now_s)
    claimed = claimed_pods(ledger) if kept else {}
    for name, stored in kept.items():
        if stored.job and stored.reservation.phase is ReservationPhase.AVAILABLE:
            kept[name] = bound = _with_replacement(stored, ledger, claimed, seen, pods_of, now_s)
            # one that is bound now is not bound to the next move as well
            claimed |= dict.fromkeys(bound.reservation.allocated, ledger.jobs[bound.job].job.id)
    return _with_owners(kept, pods_of, now_s)


def reservation_for(stored: StoredJob, now_s: float) -> StoredReservation:
    """Returns the pending reservation of a job: for a pod like the one that moves, anywhere but where that is. The
    template has its uid, because it leaves where it is: hard rules do not count it there."""
    pod, name, rules = stored.pod, reservation_name(stored), stored.pod.rules or NO_RULES
    template = PlacedPod(
        uid=pod.uid,
        name="",
        namespace=pod.namespace,
        node="",
        workload=pod.workload,
        priority=pod.priority,
        tier=pod.tier,
        qos=pod.qos,
        requests={**pod.requests, **rules.resources},
        labels=pod.labels,
        peak=pod.peak if pod.peak is not None else expected_peak(pod.requests),
        node_selector={
            **rules.node_selector,
            **({offered_label(pod.workload): pod.digest} if stored.job.starts_replacement else {}),
        },
        affinity=rules.affinity,
        tolerations=rules.tolerations,
        spread=rules.spread,
        anti_affinity=rules.anti_affinity,
        host_ports=rules.host_ports,
        unread_rules=rules.unread,
    )
    owner = ReservationOwner(namespace=pod.namespace, workload=pod.workload, uid="" if pod.workload else pod.uid)
    reservation = Reservation(
        name=name,
        template=template,
        owners=(owner,),
        created_s=now_s,
        avoids=frozenset({stored.job.node}),
        since_s=now_s,
    )
    return StoredReservation(reservation, job=stored.name, prefers=stored.request.target_node)


def _wanted(
    ledger: MigrationLedger, asked: Mapping[str, AskedReservation], gone: Collection[str], now_s: float
) -> dict[str, StoredReservation]:
    """Those that exist from now on: of documents, and of jobs that want one. The others are released."""
    found: dict[str, StoredReservation] = {}
    for name, wanted in asked.items():
        kept = ledger.reservations.get(name)
        found[name] = wanted.begun(now_s) if kept is None or begins_anew(kept, wanted) else kept
    for stored in ledger.live():
        if desired_state(stored.job).reservation:
            name = reservation_name(stored)
            before = ledger.reservations.get(name)
            if before is None and stored.job.reservation_seen:
                continue  # it was lost; the job ends with that
            found[name] = before or reservation_for(stored, now_s)
    for name, stored_reservation in ledger.reservations.items():
        if name not in found and not stored_reservation.job and name not in gone:
            found[name] = stored_reservation
    return found


def begins_anew(kept: StoredReservation, wanted: AskedReservation) -> bool:
    """Whether a reservation is made again from its document. The change of one that is placed is refused, so a later
    generation of such is one whose document was deleted and applied again; a replica that is behind may follow an
    earlier one."""
    if kept.reservation.phase is ReservationPhase.PENDING:
        return kept.generation != wanted.generation
    return kept.generation < wanted.generation


def _advanced(
    stored: StoredReservation,
    rooms: Rooms,
    pods_of: PodsOf,
    known_nodes: Collection[str],
    all_kept: Mapping[str, StoredReservation],
    now_s: float,
) -> StoredReservation:
    reservation = stored.reservation
    if reservation.has_ended:
        return stored
    node = reservation.placed_on
    pods = pods_of(node) if node and reservation.allocated else None
    room = True
    if reservation.phase is ReservationPhase.WAITING:
        left = {room.node.name: room for room in rooms([each.reservation for each in all_kept.values()], False)}
        room = node in left and has_room(left[node])
    view = ReservationView(
        has_node=not node or node in known_nodes,
        has_room=room,
        running=None if pods is None else frozenset(pod.uid for pod in pods),
    )
    after = advance(reservation, view, now_s)
    return stored if after is None else _kept(stored, after, now_s)


def _placed(kept: dict[str, StoredReservation], rooms: Rooms, now_s: float) -> dict[str, StoredReservation]:
    pending = {
        name: stored.reservation
        for name, stored in kept.items()
        if stored.reservation.phase is ReservationPhase.PENDING and not stored.reservation.has_ended
    }
    for lower in (False, True):
        placing = [reservation for reservation in in_order(pending) if yields(reservation) is lower]
        if not placing:
            continue
        left = rooms([stored.reservation for stored in kept.values()], not lower)
        index = RoomIndex(left)
        for reservation in placing:
            stored = kept[reservation.name]
            found = _find(index, reservation, stored.prefers)
            if found.node:
                after = place(reservation, found.node, now_s, has_room=found.has_room)
            else:
                after = refuse(reservation, found.message() + _without_file(reservation, left))
            kept[reservation.name] = _kept(stored, after, now_s)
    return kept


def _without_file(reservation: Reservation, rooms: Sequence[NodeRoom]) -> str:
    """What there is to say where no other node can start the workload from the same file."""
    for label, digest in reservation.template.node_selector.items():
        others = [room.node for room in rooms if room.node.name not in reservation.avoids]
        if label.startswith(OFFERED_LABEL) and not any(node.labels.get(label) == digest for node in others):
            return f"; no other node offers workload {label.removeprefix(OFFERED_LABEL)} with digest {digest}"
    return ""


def _find(index: RoomIndex, reservation: Reservation, prefers: str) -> ReservationPlacement:
    if prefers and not reservation.node:
        found = index.place(replace(reservation, node=prefers, pre_allocation=False))
        if found.node:
            return found
    return index.place(reservation)


def _with_replacement(
    stored: StoredReservation,
    ledger: MigrationLedger,
    claimed: Mapping[str, str],
    seen: SeenCluster,
    pods_of: PodsOf,
    now_s: float,
) -> StoredReservation:
    """A move's reservation after its replacement was bound."""
    node, job = stored.reservation.placed_on, ledger.jobs[stored.job]
    if job.job.step is not MigrationStep.REPLACING:
        return stored  # a pod that scales out does not take what a move is about to need
    uids = {uid for _, uid in candidates(job, seen, claimed) if seen.pods[uid].node == node}
    after = stored.reservation
    for pod in sorted(pods_of(node) or (), key=_oldest_first):
        if pod.uid in uids:
            after = bind(after, pod, now_s)
    return stored if after == stored.reservation else _kept(stored, after, now_s)


def _with_owners(kept: dict[str, StoredReservation], pods_of: PodsOf, now_s: float) -> dict[str, StoredReservation]:
    """Reservations of documents after pods were bound: each pod, oldest first, to the one that it uses. A pod that has
    a reservation takes no other: what that one keeps would be lost for its own owner."""
    open_by_node: dict[str, list[str]] = {}
    for name, stored in sorted(kept.items()):
        if not stored.job and stored.reservation.phase is ReservationPhase.AVAILABLE:
            open_by_node.setdefault(stored.reservation.placed_on, []).append(name)
    bound = {uid for stored in kept.values() for uid in stored.reservation.allocated}
    for node, names in open_by_node.items():
        for pod in sorted(pods_of(node) or (), key=_oldest_first):
            offered = [kept[name].reservation for name in names if pod.created_s >= kept[name].reservation.since_s]
            found = None if pod.uid in bound else nominate(pod, offered)
            if found is not None:
                kept[found.name] = _kept(kept[found.name], bind(found, pod, now_s), now_s)
    return kept


def _oldest_first(pod: PlacedPod) -> tuple[float, str]:
    return pod.created_s, pod.uid


def _kept(stored: StoredReservation, after: Reservation, now_s: float) -> StoredReservation:
    ended_s = stored.ended_s if stored.ended_s is not None or not after.has_ended else now_s
    return replace(stored, reservation=after, ended_s=ended_s)
