"""Places reservations on thousands of nodes: what `placement.place_plainly` finds, over arrays.

A row per resource and a column per node. Hard rules are those of `descheduling.placement_index`. Only where no node
takes a reservation are the nodes visited one by one, to count what keeps it off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from slackwater.descheduling.placement import PODS
from slackwater.descheduling.placement_index import PlacementIndex
from slackwater.reservations.placement import (
    NodeRoom,
    ReservationPlacement,
    cluster_of,
    expected_load,
    refused,
    without,
)
from slackwater.reservations.reservation import Reservation

_ABSENT = -(2**62)
_UNLIMITED = 2**62


class RoomIndex:
    """What is left on the nodes of one pool; `place` takes it away."""

    def __init__(self, rooms: Sequence[NodeRoom]) -> None:
        self._rooms = sorted(rooms, key=lambda room: room.node.name)
        self._column = {room.node.name: column for column, room in enumerate(self._rooms)}
        self._requested = sorted({name for room in rooms for name in room.free} | {PODS})
        self._limited = sorted({name for room in rooms for name in room.headroom})
        self._free = self._rows([[room.free.get(name, _ABSENT) for name in self._requested] for room in self._rooms])
        self._headroom = self._rows(
            [[room.headroom.get(name, _UNLIMITED) for name in self._limited] for room in self._rooms]
        )
        capacity = self._rows(
            [
                [room.node.allocatable.get(name, 0) if name in room.headroom else 0 for name in self._limited]
                for room in self._rooms
            ]
        )
        self._counts = capacity > 0
        self._capacity = np.maximum(capacity, 1)
        self._rules = PlacementIndex(cluster_of(self._rooms))

    def place(self, reservation: Reservation) -> ReservationPlacement:
        """Returns the best node for a reservation, and takes it away there."""
        allowed = self._allowed(reservation)
        need = expected_load(reservation.template)
        asked = self._asked(reservation)
        wanted = np.array([need.get(name, 0) for name in self._limited], dtype=np.int64).reshape(-1, 1)
        after = self._headroom - wanted
        fits = allowed & (after >= 0).all(axis=0)
        if asked is None:
            fits &= False
        else:
            fits &= (self._free >= asked).all(axis=0)
        has_room = bool(fits.any())
        candidates = fits if has_room else allowed & reservation.pre_allocation
        if not candidates.any():
            return refused(reservation, self._rooms)
        shares = np.where(self._counts, after / self._capacity, 1.0).min(axis=0, initial=1.0)
        columns = np.flatnonzero(candidates)
        column = int(columns[np.argmax(shares[columns])])
        self._allocate(column, reservation)
        return ReservationPlacement(reservation.name, self._rooms[column].node.name, has_room=has_room)

    def _rows(self, columns: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        if not columns:
            return np.zeros((0, 0), dtype=np.int64)
        return np.ascontiguousarray(np.array(columns, dtype=np.int64).reshape(len(columns), -1).T)

    def _asked(self, reservation: Reservation) -> NDArray[np.int64] | None:
        """The requests by row; None where a resource is on no node."""
        requests = reservation.template.requests
        if any(amount > 0 and name not in self._requested for name, amount in requests.items()):
            return None
        asked = [1 if name == PODS else requests.get(name, _ABSENT) for name in self._requested]
        return np.array(asked, dtype=np.int64).reshape(-1, 1)

    def _allowed(self, reservation: Reservation) -> NDArray[np.bool_]:
        allowed = self._rules.allowed(reservation.template)
        for name in reservation.avoids:
            if name in self._column:
                allowed[self._column[name]] = False
        if reservation.node:
            only = np.zeros(len(self._rooms), dtype=np.bool_)
            if reservation.node in self._column:
                only[self._column[reservation.node]] = True
            allowed &= only
        return allowed

    def _allocate(self, column: int, reservation: Reservation) -> None:
        room = without(self._rooms[column], reservation)
        self._rooms[column] = room
        self._rules.place(room.pods[-1], room.node.name)
        self._free[:, column] = [room.free.get(name, _ABSENT) for name in self._requested]
        self._headroom[:, column] = [room.headroom.get(name, _UNLIMITED) for name in self._limited]


def in_order(reservations: Mapping[str, Reservation]) -> Sequence[Reservation]:
    """Returns reservations in the order in which they are placed: by the pod's priority, then the oldest first."""
    return sorted(
        reservations.values(),
        key=lambda reservation: (-(reservation.template.priority or 0), reservation.created_s, reservation.name),
    )
