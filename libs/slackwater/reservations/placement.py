"""Where a reservation is placed: filters, and a score over predicted headroom. The readable form, node by node;
`room_index.RoomIndex` finds the same, faster.

A node takes a reservation if no hard rule keeps its pod off (`descheduling.placement_check`), if the requests are free
beside all that pods and other reservations have, and if the predicted load after it stays below the node's limit. Of
those the node with the most predicted headroom left in its scarcest resource is taken, so that a move does not make the
next hot spot. Ties go to the lower name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from slackwater.descheduling.placement import (
    PODS,
    Amounts,
    ClusterPlacement,
    LoadSource,
    PlacedPod,
    PlacementNode,
    free_for_requests,
)
from slackwater.descheduling.placement_check import PlacementRefusal, rule_refusal
from slackwater.model.quantities import format_cpu, format_memory
from slackwater.model.records import record
from slackwater.reservations.reservation import PLACED, Reservation

BORROWED = ("batch-", "mid-")
"""Prefixes of resources that a node offers."""


class RoomFilter(StrEnum):
    """What keeps a reservation off a node. The first that applies is named."""

    OTHER_NODE = "other-node"
    """It names another node, or avoids this one."""
    CORDONED = "cordoned"
    UNREAD_RULES = "unread-rules"
    LABELS_OR_TAINTS = "labels-or-taints"
    OPAQUE_POD = "opaque-pod"
    """A pod there of which neither labels nor rules are known."""
    HOST_PORTS = "host-ports"
    ANTI_AFFINITY = "anti-affinity"
    """Its own, or that of a pod there."""
    TOPOLOGY_SPREAD = "topology-spread"
    REQUESTS = "requests"
    HEADROOM = "headroom"


_BY_RULE: Final = {
    PlacementRefusal.UNREAD_RULES: RoomFilter.UNREAD_RULES,
    PlacementRefusal.CORDONED: RoomFilter.CORDONED,
    PlacementRefusal.NODE_LABELS: RoomFilter.LABELS_OR_TAINTS,
    PlacementRefusal.TAINTS: RoomFilter.LABELS_OR_TAINTS,
    PlacementRefusal.OPAQUE_POD: RoomFilter.OPAQUE_POD,
    PlacementRefusal.HOST_PORTS: RoomFilter.HOST_PORTS,
    PlacementRefusal.ANTI_AFFINITY: RoomFilter.ANTI_AFFINITY,
    PlacementRefusal.ANTI_AFFINITY_THERE: RoomFilter.ANTI_AFFINITY,
    PlacementRefusal.TOPOLOGY_SPREAD: RoomFilter.TOPOLOGY_SPREAD,
}


@record(frozen=True, slots=True)
class NodeRoom:
    """A node with what is left on it. Amounts may be below 0."""

    node: PlacementNode
    free: Amounts
    """For requests, by resource, with `pods`."""
    headroom: Amounts
    """For predicted load, by resource of the limits."""
    pods: Sequence[PlacedPod] = ()
    """Those that are there, and those that reservations keep room for: hard rules count them."""
    cold_pods: int = 0
    """Pods whose peak is not predicted yet: their requests count."""


@record(frozen=True, slots=True)
class RoomShortage:
    """What a node has too little of for a reservation, in the resource where most of the need is missing."""

    node: str
    why: RoomFilter
    resource: str
    need: int
    left: int
    """Below 0: more is promised than there is."""
    cold_pods: int = 0

    def message(self) -> str:
        """Returns it as a sentence."""
        of = "predicted headroom" if self.why is RoomFilter.HEADROOM else "what is not requested"
        of = "the node's offer" if self.resource.startswith(BORROWED) else of
        left = _shown(self.resource, max(0, self.left))
        said = f"nearest is {self.node}: {_shown(self.resource, self.need)} {self.resource} needed, {left} left of {of}"
        if self.why is RoomFilter.HEADROOM and self.cold_pods:
            verb = "pods count" if self.cold_pods > 1 else "pod counts"
            said += f"; {self.cold_pods} {verb} with what they request until prediction knows them"
        return said


@record(frozen=True, slots=True)
class ReservationPlacement:
    """What was found for a reservation."""

    name: str
    node: str = ""
    """Empty: no node takes it."""
    has_room: bool = False
    """False with a node: preAllocation, what becomes free there is kept for it."""
    refusals: Mapping[RoomFilter, int] = field(default_factory=dict)
    """Nodes by what keeps it off; empty where a node takes it."""
    unread: Sequence[str] = ()
    """Rules of its pod that are not read, so that no node is known to be allowed."""
    nearest: RoomShortage | None = None
    """Of the node that lacks the least; None where a node takes it, or room is not what is missing."""

    def message(self) -> str:
        """Returns why no node takes it, with the counts of nodes."""
        total = sum(self.refusals.values())
        parts = ", ".join(f"{count} {name.value}" for name, count in sorted(self.refusals.items()))
        if not total:
            return "there is no node"
        unread = f" ({', '.join(self.unread)})" if self.unread else ""
        return f"0 of {total} nodes take it: {parts}{unread}" + (f"; {self.nearest.message()}" if self.nearest else "")


def room_of(
    node: PlacementNode, pods: Sequence[PlacedPod], reservations: Sequence[Reservation], limits: Mapping[str, float]
) -> NodeRoom:
    """Returns what is left on a node beside its pods and the reservations placed there.

    `limits`: share of the allocatable amount that the predicted load may take, by resource. A pod without a prediction
    counts with its requests, and a reservation with the predicted peak of its template, or its requests.
    """
    free = free_for_requests(node, pods)
    load = dict(node.system_peak)
    for pod in pods:
        _add(load, expected_load(pod))
    for reservation in reservations:
        if reservation.phase not in PLACED or reservation.placed_on != node.name:
            continue
        free[PODS] -= 0 if reservation.allocated else 1
        held = reservation.held()
        for resource, amount in held.items():
            if resource in free:
                free[resource] -= amount
        _add(load, _unused_load(reservation, held))
    headroom = {
        resource: int(share * node.allocatable.get(resource, 0)) - load.get(resource, 0)
        for resource, share in limits.items()
    }
    return NodeRoom(node, free, headroom, [*pods, *_pods_to_come(node.name, reservations)])


def _pods_to_come(node: str, reservations: Sequence[Reservation]) -> Iterator[PlacedPod]:
    """The pods that reservations placed on a node keep room for, until their owners are there."""
    for reservation in reservations:
        if reservation.phase in PLACED and reservation.placed_on == node and not reservation.allocated:
            yield replace(reservation.template, node=node, arriving=True)


def cluster_of(rooms: Iterable[NodeRoom]) -> ClusterPlacement:
    """Returns the nodes with the pods that hard rules count. A pod for which room is kept elsewhere is only there."""
    rooms = list(rooms)
    leaving = {pod.uid for room in rooms for pod in room.pods if pod.arriving} - {""}
    return ClusterPlacement(
        [room.node for room in rooms],
        {room.node.name: [pod for pod in room.pods if pod.arriving or pod.uid not in leaving] for room in rooms},
    )


def expected_load(pod: PlacedPod) -> Amounts:
    """Returns the predicted peak, or the requests where there is none."""
    peak = pod.load(LoadSource.PREDICTED)
    return pod.requests if peak is None else peak


def refusal(reservation: Reservation, room: NodeRoom, cluster: ClusterPlacement | None = None) -> RoomFilter | None:
    """Returns what keeps a reservation off a node; None where it fits. `cluster`: the other nodes, by which rules about
    topology judge."""
    cluster = cluster_of([room]) if cluster is None else cluster
    return _not_allowed(reservation, room.node, cluster) or _too_large(reservation, room)


def remaining_share(reservation: Reservation, room: NodeRoom) -> float:
    """Returns the share of the allocatable amount that is left as predicted headroom with the reservation, in the
    resource where it is least; 1 where no limit applies."""
    need = expected_load(reservation.template)
    shares = [
        (left - need.get(resource, 0)) / room.node.allocatable[resource]
        for resource, left in room.headroom.items()
        if room.node.allocatable.get(resource, 0) > 0
    ]
    return min(shares, default=1.0)


def without(room: NodeRoom, reservation: Reservation) -> NodeRoom:
    """Returns what is left on a node with one more reservation."""
    free = {
        resource: amount - (1 if resource == PODS else reservation.template.requests.get(resource, 0))
        for resource, amount in room.free.items()
    }
    need = expected_load(reservation.template)
    headroom = {resource: amount - need.get(resource, 0) for resource, amount in room.headroom.items()}
    template = replace(reservation.template, node=room.node.name, arriving=True)
    return replace(room, free=free, headroom=headroom, pods=[*room.pods, template])


def find_place(reservation: Reservation, rooms: Sequence[NodeRoom]) -> ReservationPlacement:
    """Returns the best node for one reservation."""
    fits, short, cluster = [], [], cluster_of(rooms)
    for room in rooms:
        why = refusal(reservation, room, cluster)
        rank = (-remaining_share(reservation, room), room.node.name)
        if why is None:
            fits.append(rank)
        elif reservation.pre_allocation and why in (RoomFilter.REQUESTS, RoomFilter.HEADROOM):
            short.append(rank)
    if fits:
        return ReservationPlacement(reservation.name, min(fits)[1], has_room=True)
    if short:
        return ReservationPlacement(reservation.name, min(short)[1])
    return refused(reservation, rooms)


def refused(reservation: Reservation, rooms: Iterable[NodeRoom]) -> ReservationPlacement:
    """Returns what keeps a reservation off each node, and which node lacks the least. Nodes that take it are left
    out."""
    refusals, nearest = Counter[RoomFilter](), list[tuple[float, str, RoomShortage]]()
    rooms = list(rooms)
    cluster = cluster_of(rooms)
    for room in rooms:
        why = refusal(reservation, room, cluster)
        if why is None:
            continue
        refusals[why] += 1
        if why in (RoomFilter.REQUESTS, RoomFilter.HEADROOM):
            share, shortage = _shortage(reservation, room, why)
            nearest.append((share, room.node.name, shortage))
    found = min(nearest, key=lambda each: each[:2])[2] if nearest else None
    unread = reservation.template.unread_rules if RoomFilter.UNREAD_RULES in refusals else ()
    return ReservationPlacement(reservation.name, refusals=dict(refusals), unread=tuple(unread), nearest=found)


def _shortage(reservation: Reservation, room: NodeRoom, why: RoomFilter) -> tuple[float, RoomShortage]:
    """The share of the need that is missing, and of what."""
    if why is RoomFilter.HEADROOM:
        left, load = room.headroom, expected_load(reservation.template)
        need = {resource: load.get(resource, 0) for resource in left}
    else:
        left, need = room.free, {**reservation.template.requests, PODS: 1}
    missing = {resource: (amount - left.get(resource, 0)) / max(amount, 1) for resource, amount in need.items()}
    resource = max(sorted(missing), key=lambda each: missing[each])
    shortage = RoomShortage(
        room.node.name, why, resource, need[resource], left.get(resource, 0), cold_pods=room.cold_pods
    )
    return missing[resource], shortage


def _shown(resource: str, amount: int) -> str:
    """An amount with its unit."""
    kind = resource.rpartition("-")[2]
    return format_cpu(amount) if kind == "cpu" else format_memory(amount) if kind == "memory" else str(amount)


def has_room(room: NodeRoom) -> bool:
    """Whether nothing on a node is promised twice: what a waiting reservation waits for."""
    return all(amount >= 0 for amount in room.free.values())


def _not_allowed(reservation: Reservation, node: PlacementNode, cluster: ClusterPlacement) -> RoomFilter | None:
    if reservation.node not in ("", node.name) or node.name in reservation.avoids:
        return RoomFilter.OTHER_NODE
    rule = rule_refusal(reservation.template, node, cluster)
    return None if rule is None else _BY_RULE[rule]


def _too_large(reservation: Reservation, room: NodeRoom) -> RoomFilter | None:
    requests, need = reservation.template.requests, expected_load(reservation.template)
    if room.free[PODS] < 1 or any(amount > room.free.get(resource, 0) for resource, amount in requests.items()):
        return RoomFilter.REQUESTS
    beyond = any(need.get(resource, 0) > left for resource, left in room.headroom.items())
    return RoomFilter.HEADROOM if beyond else None


def _unused_load(reservation: Reservation, held: Amounts) -> Amounts:
    """The load of owners to come: the share of the template's that is not allocated."""
    requests, load = reservation.template.requests, expected_load(reservation.template)
    return {
        resource: amount * held.get(resource, amount) // requests[resource] if requests.get(resource, 0) > 0 else amount
        for resource, amount in load.items()
    }


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount
