"""Where reservations are placed: the arrays find what the plain form finds, and nothing is promised twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from drawn_rooms import LIMITS, held_by_node, many_reservations, nodes_with_pods, place_all, rooms
from hypothesis import given
from hypothesis import strategies as st

from slackwater.descheduling.placement import PODS, PlacedPod, PlacementNode
from slackwater.model.placement_rules import AntiAffinityRule, HostPort, NodeTaint, SpreadRule
from slackwater.reservations.lifecycle import place
from slackwater.reservations.placement import (
    NodeRoom,
    ReservationPlacement,
    RoomFilter,
    cluster_of,
    find_place,
    has_room,
    refusal,
    room_of,
    without,
)
from slackwater.reservations.reservation import Reservation, ReservationOwner
from slackwater.reservations.room_index import RoomIndex, in_order

TEMPLATE = PlacedPod("", "", "default", "", requests={"cpu": 1000, "memory": 8}, peak={"cpu": 400, "memory": 6})
OWNERS = (ReservationOwner(workload="w1"),)


def node(name: str, *, peak: int = 0, **more: object) -> NodeRoom:
    made = PlacementNode(name, {"cpu": 4000, "memory": 64, PODS: 10}, system_peak={"cpu": peak}, **more)  # type: ignore[arg-type]
    return room_of(made, (), (), LIMITS)


def reservation(**fields: object) -> Reservation:
    return replace(Reservation("r", TEMPLATE, OWNERS, created_s=0.0), **fields)  # type: ignore[arg-type]


def place_plainly(pending: Sequence[Reservation], rooms: Sequence[NodeRoom]) -> Sequence[ReservationPlacement]:
    """Returns where each reservation is placed, in this order; each finds what the former ones left."""
    left = {room.node.name: room for room in rooms}
    found = []
    for reservation in pending:
        placement = find_place(reservation, list(left.values()))
        found.append(placement)
        if placement.node:
            left[placement.node] = without(left[placement.node], reservation)
    return found


def test_the_node_with_most_predicted_headroom_is_taken_and_ties_go_to_the_lower_name() -> None:
    hot, cool, same = node("a", peak=1500), node("b", peak=200), node("c", peak=200)
    assert [found.node for found in place_plainly([reservation()], [hot, same, cool])] == ["b"]


def test_each_finds_what_the_former_ones_left() -> None:
    pending = [reservation(name=f"r{number}") for number in range(8)]
    found = place_plainly(pending, [node("a"), node("b")])
    assert [each.node for each in found] == ["a", "b", "a", "b", "a", "b", "a", "b"]
    beyond = place_plainly([*pending, reservation(name="r8")], [node("a"), node("b")])[-1]
    assert beyond.node == ""
    nearest = "nearest is a: 1 cpu needed, 0 left of what is not requested"
    assert beyond.message() == f"0 of 2 nodes take it: 2 requests; {nearest}"


def test_each_filter_is_named_and_counted() -> None:
    taints = (NodeTaint("spot"),)
    nodes = [
        *(node("a", unschedulable=True), node("b", taints=taints), node("c", peak=2500)),
        *(node("old"), node("d", unschedulable=True)),
    ]
    (found,) = place_all([reservation(avoids=frozenset({"old"}))], nodes)
    assert found.refusals == {
        RoomFilter.CORDONED: 2,
        RoomFilter.LABELS_OR_TAINTS: 1,
        RoomFilter.HEADROOM: 1,
        RoomFilter.OTHER_NODE: 1,
    }
    message = "0 of 5 nodes take it: 2 cordoned, 1 headroom, 1 labels-or-taints, 1 other-node"
    assert found.message() == f"{message}; nearest is c: 400m cpu needed, 300m left of predicted headroom"
    assert place_all([reservation()], [])[0].message() == "there is no node"


def test_the_node_that_lacks_the_least_is_named_with_pods_that_are_not_predicted_yet() -> None:
    rooms = [replace(node("a", peak=2500), cold_pods=3), replace(node("b", peak=2900), cold_pods=1)]
    for found in (find_place(reservation(), rooms), place_all([reservation()], rooms)[0]):
        assert found.nearest is not None
        assert found.nearest.message().startswith("nearest is a: 400m cpu needed, 300m left")
        assert found.nearest.message().endswith("; 3 pods count with what they request until prediction knows them")
    full = place_all([reservation()], [node("a", peak=9000)])[0].nearest
    assert full is not None
    assert " 0 left of predicted headroom" in full.message(), "no amount below 0 is shown"


def test_a_resource_that_no_node_has_is_not_there() -> None:
    asks = reservation(template=replace(TEMPLATE, requests={"gpu": 1}))
    (found,) = place_all([asks], [node("a")])
    assert found.refusals == {RoomFilter.REQUESTS: 1}


def test_a_full_node_is_kept_for_what_may_wait_and_a_node_with_room_comes_first() -> None:
    full = room_of(
        PlacementNode("a", {"cpu": 4000, "memory": 64, PODS: 10}),
        [replace(TEMPLATE, uid="big", node="a", requests={"cpu": 3500}, peak=None)],
        (),
        LIMITS,
    )
    (waits,) = place_all([reservation(pre_allocation=True)], [full])
    assert (waits.node, waits.has_room) == ("a", False)
    (fits,) = place_all([reservation(pre_allocation=True)], [full, node("z")])
    assert (fits.node, fits.has_room) == ("z", True)
    placed = place(reservation(pre_allocation=True), "a", 1.0, has_room=False)
    left = room_of(full.node, (), [placed], LIMITS)
    assert has_room(left), "the big pod has gone"
    assert left.free["cpu"] == 3000


def test_a_pod_with_unread_rules_does_not_keep_itself_off_its_node() -> None:
    own = replace(TEMPLATE, uid="u", node="a", unread_rules=("too-large",))
    asks = reservation(template=replace(TEMPLATE, uid="u"))
    room = room_of(PlacementNode("a", {"cpu": 4000, "memory": 64, PODS: 10}), [own], (), LIMITS)
    assert place_all([asks], [room]) == place_plainly([asks], [room])
    assert place_all([asks], [room])[0].node == "a"


def test_room_is_kept_by_the_rules_of_the_template_and_not_of_the_pod_that_leaves() -> None:
    """The pod took no port when it came; its next one will. Both forms keep the port."""
    there = replace(TEMPLATE, uid="u", node="a")
    left = [room_of(PlacementNode("a", {"cpu": 4000, "memory": 64, PODS: 10}), [there], (), LIMITS), node("b")]
    first = reservation(node="a", template=replace(TEMPLATE, uid="u", host_ports=(HostPort(80),)))
    second = reservation(name="r2", template=replace(TEMPLATE, host_ports=(HostPort(80),), peak={}))
    left[1] = replace(left[1], headroom={"cpu": 0, "memory": 0})
    placed = place_all([first, second], left)
    assert placed == place_plainly([first, second], left)
    assert [each.node for each in placed] == ["a", "b"]


@given(rooms(), many_reservations())
def test_the_arrays_find_what_the_plain_form_finds(left: list[NodeRoom], pending: list[Reservation]) -> None:
    assert place_all(pending, left) == place_plainly(pending, left)


@given(rooms(), many_reservations(), st.data())
def test_the_order_of_nodes_does_not_matter(
    left: list[NodeRoom], pending: list[Reservation], data: st.DataObject
) -> None:
    assert place_all(pending, data.draw(st.permutations(left))) == place_all(pending, left)
    by_name = {each.name: each for each in pending}
    shuffled = {each.name: each for each in data.draw(st.permutations(pending))}
    assert in_order(shuffled) == in_order(by_name)


@given(nodes_with_pods(), many_reservations())
def test_nothing_is_promised_twice(
    cluster: list[tuple[PlacementNode, list[PlacedPod]]], pending: list[Reservation]
) -> None:
    """After a round the nodes have what they had, less what is kept; none that was given room is over-committed."""
    before = {node.name: room_of(node, pods, (), LIMITS) for node, pods in cluster}
    found = place_all(pending, list(before.values()))
    placed = [
        place(each, where.node, 1.0, has_room=where.has_room)
        for each, where in zip(pending, found, strict=True)
        if where.node
    ]
    held = held_by_node(placed)
    for one, pods in cluster:
        after = room_of(one, pods, placed, LIMITS)
        for resource, amount in before[one.name].free.items():
            if resource != PODS:
                assert after.free[resource] == amount - held.get(one.name, {}).get(resource, 0)
        here = [each for each, where in zip(pending, found, strict=True) if where.node == one.name]
        if here and all(where.has_room for where in found if where.node == one.name):
            assert has_room(after) or not has_room(before[one.name])
            assert all(amount >= 0 for amount in after.headroom.values())


@given(rooms(), many_reservations(1))
def test_a_node_is_refused_for_a_reason_that_holds(left: list[NodeRoom], pending: list[Reservation]) -> None:
    cluster = cluster_of(left)  # rules about topology judge by the pods of the other nodes, too
    for each in pending:
        (found,) = place_all([each], left)
        if found.node:
            room = next(room for room in left if room.node.name == found.node)
            assert (refusal(each, room, cluster) is None) == found.has_room
        else:
            assert sum(found.refusals.values()) == len(left)
            assert all(refusal(each, room, cluster) is not None for room in left)


def ruled(uid: str, at: str, **rules: Any) -> PlacedPod:
    return replace(TEMPLATE, uid=uid, node=at, requests={}, peak={}, labels={"app": "x"}, **rules)


APART = (AntiAffinityRule("zone", {"app": "x"}),)


@pytest.mark.parametrize(
    ("rules", "there", "why"),
    [
        ({"anti_affinity": APART}, {}, RoomFilter.ANTI_AFFINITY),
        ({}, {"anti_affinity": APART}, RoomFilter.ANTI_AFFINITY),
        ({"host_ports": (HostPort(80),)}, {"host_ports": (HostPort(80),)}, RoomFilter.HOST_PORTS),
        ({"unread_rules": ("volumes",)}, {}, RoomFilter.UNREAD_RULES),
        ({}, {"unread_rules": ("too-large",)}, RoomFilter.OPAQUE_POD),
        ({"spread": (SpreadRule("zone", 1, {"app": "x"}, min_domains=2),)}, {}, RoomFilter.TOPOLOGY_SPREAD),
    ],
)
def test_hard_rules_keep_a_reservation_off(rules: dict[str, Any], there: dict[str, Any], why: RoomFilter) -> None:
    node = PlacementNode("n1", {"cpu": 8000, "memory": 64, PODS: 10}, labels={"zone": "a"})
    asks = reservation(template=ruled("", "", **rules))
    found = RoomIndex([room_of(node, [ruled("o", "n1", **there)], (), {})]).place(asks)
    assert found.refusals == {why: 1}
    assert ("volumes" in found.message()) is (why is RoomFilter.UNREAD_RULES)


def test_two_reservations_do_not_take_the_places_that_exclude_each_other() -> None:
    nodes = [PlacementNode(name, {"cpu": 8000, "memory": 64, PODS: 10}, labels={"zone": name}) for name in ("a", "b")]
    rooms = [room_of(nodes[0], [ruled("old", "a", anti_affinity=APART)], (), {}), room_of(nodes[1], [], (), {})]
    first = reservation(template=ruled("old", "", anti_affinity=APART), avoids=frozenset({"a"}))
    index = RoomIndex(rooms)
    assert index.place(first).node == "b", "the old pod leaves"
    assert index.place(reservation(template=ruled("", "", anti_affinity=APART))).node == "a", "it has left"
