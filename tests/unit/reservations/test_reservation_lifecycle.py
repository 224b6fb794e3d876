"""The life of a reservation: phases, owners, expiry; a machine that checks the invariants at every step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn_rooms import NODES, held_by_node, reservations
from hypothesis import given
from hypothesis import strategies as st

from slackwater.descheduling.placement import PlacedPod
from slackwater.reservations.lifecycle import (
    ReservationView,
    advance,
    bind,
    broken_invariants,
    can_bind,
    nominate,
    place,
    refuse,
)
from slackwater.reservations.reservation import (
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationReason,
)
from slackwater.resources.selectors import Selector

TEMPLATE = PlacedPod("", "", "default", "", requests={"cpu": 1000})
KEPT = Reservation("r", TEMPLATE, (ReservationOwner(workload="w1"),), created_s=0.0, expires_s=100.0)


def owner(uid: str = "p1", cpu: int = 400, **more: str) -> PlacedPod:
    return replace(PlacedPod(uid, uid, "default", "n1", workload="w1", requests={"cpu": cpu}), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (ReservationOwner(), False),
        (ReservationOwner(namespace="default"), False),
        (ReservationOwner(uid="p1"), True),
        (ReservationOwner(namespace="default", name="p1"), True),
        (ReservationOwner(namespace="other", name="p1"), False),
        (ReservationOwner(workload="w1", selector=Selector({"app": "x"})), False),
        (ReservationOwner(selector=Selector({"app": "web"})), True),
        (ReservationOwner(selector=Selector()), True),
    ],
)
def test_an_owner_matches_by_all_that_is_set(rule: ReservationOwner, matches: bool) -> None:
    pod = replace(owner(), labels={"app": "web"})
    assert rule.matches(pod) is matches
    assert replace(KEPT, owners=(rule, ReservationOwner(uid="else"))).allows(pod) is matches


def test_one_for_one_owner_ends_with_it_and_keeps_nothing() -> None:
    placed = place(KEPT, "n1", 1.0)
    assert (placed.phase, placed.held()) == (ReservationPhase.AVAILABLE, {"cpu": 1000})
    ended = bind(placed, owner(), 2.0)
    assert (ended.phase, ended.held(), ended.allocated) == (ReservationPhase.SUCCEEDED, {}, {"p1": {"cpu": 400}})
    assert bind(ended, owner("p2"), 3.0) == ended
    assert advance(ended, ReservationView(), 1e9) is None


def test_several_share_one_and_what_they_leave_is_kept_again() -> None:
    shared = place(replace(KEPT, allocate_once=False), "n1", 1.0)
    shared = bind(bind(shared, owner("p1", 400), 2.0), owner("p2", 900), 2.0)
    assert shared.allocated == {"p1": {"cpu": 400}, "p2": {"cpu": 600}}, "the node gives the other 300"
    assert (shared.phase, shared.held()) == (ReservationPhase.AVAILABLE, {"cpu": 0})
    assert not can_bind(shared, owner("p3", 1))
    assert advance(shared, ReservationView(running=None), 3.0) is None, "a silent node ends no owner"
    again = advance(shared, ReservationView(running={"p2"}), 3.0)
    assert again is not None
    assert again.held() == {"cpu": 400}
    assert held_by_node([again, replace(again, name="r2")]) == {"n1": {"cpu": 800}}


def test_it_expires_by_the_given_clock_whatever_its_phase() -> None:
    for before in (KEPT, place(KEPT, "n1", 1.0), place(KEPT, "n1", 1.0, has_room=False)):
        assert advance(before, ReservationView(has_room=False), 99.9) is None
        after = advance(before, ReservationView(has_node=False), 100.0)
        assert after is not None
        assert (after.phase, after.reason, after.held()) == (ReservationPhase.EXPIRED, ReservationReason.EXPIRED, {})


def test_it_waits_for_room_and_fails_with_its_node() -> None:
    waits = place(KEPT, "n1", 1.0, has_room=False)
    assert (waits.phase, waits.held()) == (ReservationPhase.WAITING, {"cpu": 1000})
    assert not can_bind(waits, owner())
    ready = advance(waits, ReservationView(has_room=True), 2.0)
    assert ready is not None
    assert (ready.phase, ready.since_s) == (ReservationPhase.AVAILABLE, 2.0)
    gone = advance(ready, ReservationView(has_node=False), 3.0)
    assert gone is not None
    assert (gone.phase, gone.message) == (ReservationPhase.FAILED, "node n1 is gone")


def test_a_refused_one_is_tried_again_and_says_why() -> None:
    held_back = refuse(KEPT, "0 of 2 nodes take it: 2 requests")
    assert (held_back.phase, held_back.reason) == (ReservationPhase.PENDING, ReservationReason.UNSCHEDULABLE)
    placed = place(held_back, "n1", 5.0)
    assert (placed.message, refuse(placed, "x"), place(placed, "n2", 6.0)) == ("", placed, placed)


def test_a_pod_uses_the_lowest_order_then_what_is_used_most() -> None:
    one, two = (place(replace(KEPT, name=name, allocate_once=False), "n1", 1.0) for name in ("a", "b"))
    used = bind(two, owner("p0", 100), 2.0)
    assert nominate(owner(), [one, used]) == used
    first = replace(one, order=3)
    assert nominate(owner(), [used, first, replace(two, name="c", order=7)]) == first
    assert nominate(owner(), [one, two]) == one
    assert nominate(owner(node="n2"), [one, used]) is None
    assert nominate(owner(workload="w9"), [one, used]) is None


@given(st.data())
def test_invariants_hold_along_any_history(data: st.DataObject) -> None:
    now_s, current = 0.0, data.draw(reservations(0))
    for number in range(data.draw(st.integers(1, 12))):
        now_s += data.draw(st.sampled_from([0.0, 1.0, 7.0]))
        match data.draw(st.sampled_from(["place", "refuse", "bind", "advance"])):
            case "place":
                where = data.draw(st.sampled_from(NODES))
                after = place(current, where, now_s, has_room=data.draw(st.booleans()))
            case "refuse":
                after = refuse(current, "no room")
            case "bind":
                workload = data.draw(st.sampled_from(["w1", "w2"]))
                cpu = data.draw(st.integers(0, 5000))
                pod = owner(f"p{data.draw(st.integers(0, 3))}", cpu, workload=workload, node=data.draw(nodes))
                after = bind(current, pod, now_s)
            case _:
                running = data.draw(st.one_of(st.none(), st.sets(st.sampled_from(["p0", "p1", "p2", "p3"]))))
                view = ReservationView(data.draw(st.booleans()), data.draw(st.booleans()), running)
                after = advance(current, view, now_s) or current
        assert list(broken_invariants(current, after)) == [], number
        current = after


nodes = st.sampled_from(NODES)


@pytest.mark.parametrize(
    ("before", "after", "breaks"),
    [
        (replace(KEPT, phase=ReservationPhase.EXPIRED), KEPT, "an ended reservation changed"),
        (place(KEPT, "n1", 1.0), KEPT, "went to Pending"),
        (place(KEPT, "n1", 1.0), place(KEPT, "n2", 1.0), "from n1 to n2"),
        (KEPT, replace(KEPT, phase=ReservationPhase.AVAILABLE), "on no node"),
        (KEPT, replace(KEPT, allocated={"p": {"cpu": 2000}}), "more cpu than was requested"),
        (KEPT, replace(KEPT, allocated={"p": {}, "q": {}}), "has several"),
    ],
)
def test_a_broken_invariant_is_named(before: Reservation, after: Reservation, breaks: str) -> None:
    assert any(breaks in found for found in broken_invariants(before, after))
