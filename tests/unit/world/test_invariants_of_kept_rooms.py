"""The invariant of room that documents keep fails on a planted violation, and holds without it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.world.invariants import Violation
from tests.world.invariants.migration.kept_rooms import PodsUseOneReservation
from tests.world.invariants.migration.move_commits import MoveBooks, MoveCommit
from tests.world.kept_rooms import EXPECTED, KEEPS_ROOM
from tests.world.plan import MIGRATION, Plan
from tests.world.swarm import draw
from tests.world.trace import Kind, Step

from slackwater.descheduling.placement import PlacedPod
from slackwater.migration.domain.stored_jobs import StoredReservation
from slackwater.reservations.reservation import Reservation, ReservationOwner, ReservationPhase

TEMPLATE = PlacedPod("", "", "", "", requests={"cpu": 1000})


def room(name: str, *owners: str, order: int = 0, since_s: float = 10.0, node: str = "node-01") -> StoredReservation:
    return StoredReservation(
        Reservation(
            name,
            TEMPLATE,
            (ReservationOwner(workload=EXPECTED),),
            0.0,
            allocate_once=False,
            order=order,
            phase=ReservationPhase.AVAILABLE,
            placed_on=node,
            allocated={uid: {"cpu": 100} for uid in owners},
            since_s=since_s,
        )
    )


class RoomLedger:
    """Commits by hand. Pods run on node-01; the clock stands still at second 20."""

    def __init__(self, *pods: str, workload: str = EXPECTED) -> None:
        clock = SimpleNamespace(seconds=lambda: 20.0)
        world: Any = SimpleNamespace(plan=Plan(1, move_nodes=3), clock_of=lambda _: clock)
        self.invariant = PodsUseOneReservation(world)
        self.books = MoveBooks()
        for uid in pods:
            detail = {"node": "node-01", "workload": workload}
            self.invariant.on_step(Step(1, 20.0, "machine-01", Kind.POD_STARTED, uid, detail=detail))

    def commit(self, *rooms: StoredReservation) -> None:
        commit = MoveCommit("migration-0/1", generations=(0, 1))
        commit.reservations = {each.name: (self.books.reservations.get(each.name), each) for each in rooms}
        self.books.apply(commit)
        self.invariant.on_step(Step(1, 20.0, "", Kind.COMMITTED, MIGRATION, decoded=[commit]))


def test_a_pod_that_uses_two_is_found() -> None:
    ledger = RoomLedger("later-0")
    ledger.commit(room("a"), room("b"))
    ledger.commit(room("a", "later-0"))
    with pytest.raises(Violation, match="pod later-0 uses a and b"):
        ledger.commit(room("b", "later-0"))


def test_a_pod_that_uses_another_than_the_first_in_order_is_found() -> None:
    ledger = RoomLedger("later-0")
    ledger.commit(room("a"), room("b", order=7), room("c", order=2, since_s=21.0), room("d", order=1, node="node-02"))
    ledger.commit(room("b", "later-0", order=7))
    ledger = RoomLedger("later-0")
    ledger.commit(room("a"), room("b", order=7), room("c", order=2))
    with pytest.raises(Violation, match="pod later-0 uses b of order 7, and not c of order 2"):
        ledger.commit(room("b", "later-0", order=7))


def test_an_owner_that_cannot_be_one_is_found() -> None:
    ledger = RoomLedger()
    ledger.commit(room("a"))
    with pytest.raises(Violation, match="a has the owner later-0, which never ran on node-01"):
        ledger.commit(room("a", "later-0"))
    ledger = RoomLedger("web-0", workload="shop/Deployment/web")
    ledger.commit(room("a"))
    with pytest.raises(Violation, match="a has the owner web-0 of shop/Deployment/web, which it does not allow"):
        ledger.commit(room("a", "web-0"))


def test_a_way_that_no_reservation_goes_is_found() -> None:
    ledger = RoomLedger()
    ledger.commit(room("a"))
    moved = room("a", node="node-02")
    with pytest.raises(Violation, match="reservation a: it went from node-01 to node-02"):
        ledger.commit(moved)
    ledger = RoomLedger()
    ledger.commit(room("a"))
    again = replace(moved, reservation=replace(moved.reservation, created_s=5.0))
    ledger.commit(again)  # a document that was deleted and made again


def test_some_worlds_of_moves_keep_room_and_end_with_none() -> None:
    plans = [draw(seed, seconds=120.0, moves=True) for seed in range(1, 60)]
    keeping = [plan for plan in plans if KEEPS_ROOM in plan.habits]
    assert 10 < len(keeping) < 40
    for plan in keeping:
        rooms = [change for change in plan.changes if change.kind == "Reservation"]
        last = {change.name: change.verb for change in rooms}
        assert set(last.values()) == {"delete"}
        assert Plan.from_json(plan.to_json()) == plan
    assert not any(change.kind == "Reservation" for plan in plans if plan not in keeping for change in plan.changes)
