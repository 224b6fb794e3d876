"""Small clusters and reservations drawn by hypothesis, so that few nodes are contended."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from slackwater.descheduling.placement import PODS, PlacedPod, PlacementNode
from slackwater.model.placement_rules import AntiAffinityRule, HostPort, NodeTaint, PodToleration, SpreadRule
from slackwater.reservations.placement import NodeRoom, ReservationPlacement, room_of
from slackwater.reservations.reservation import Reservation, ReservationOwner
from slackwater.reservations.room_index import RoomIndex

NODES, ZONES = ("n1", "n2", "n3", "n4"), ("a", "b")
LIMITS = {"cpu": 0.7, "memory": 0.8}
amounts = st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 4000), "memory": st.integers(0, 40)})
zones = st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}])
labels = st.sampled_from([{}, {"app": "x"}])
anti_affinities = st.sampled_from([(), (), (AntiAffinityRule("zone", {"app": "x"}),)])
spreads = st.sampled_from([(), (), (SpreadRule("zone", 1, {"app": "x"}, min_domains=2),)])
ports = st.sampled_from([(), (), (HostPort(80),)])


@st.composite
def placed_pods(draw: st.DrawFn, node: str, number: int) -> PlacedPod:
    """A pod on a node; not each has a prediction."""
    uid = f"{node}-{number}"
    return PlacedPod(
        uid=uid,
        name=uid,
        namespace="default",
        node=node,
        workload=draw(st.sampled_from(["w1", "w2"])),
        requests=draw(amounts),
        peak=draw(st.one_of(st.none(), amounts)),
        labels=draw(labels),
        anti_affinity=draw(anti_affinities),
        host_ports=draw(ports),
        unread_rules=draw(st.sampled_from([()] * 8 + [("too-large",)])),
    )


@st.composite
def nodes_with_pods(draw: st.DrawFn) -> list[tuple[PlacementNode, list[PlacedPod]]]:
    """Up to four nodes; the lower its number, the likelier it is there."""
    found = []
    for name in NODES[: draw(st.integers(0, len(NODES)))]:
        node = PlacementNode(
            name=name,
            allocatable={"cpu": draw(st.integers(0, 8000)), "memory": draw(st.integers(1, 64)), PODS: 4},
            system_peak=draw(amounts),
            labels={"zone": draw(st.sampled_from(ZONES))},
            taints=draw(st.sampled_from([(), (NodeTaint("spot"),)])),
            unschedulable=draw(st.sampled_from([False, False, False, True])),
        )
        found.append((node, [draw(placed_pods(name, number)) for number in range(draw(st.integers(0, 3)))]))
    return found


@st.composite
def rooms(draw: st.DrawFn) -> list[NodeRoom]:
    """What is left on drawn nodes, in any order."""
    found = [room_of(node, pods, (), LIMITS) for node, pods in draw(nodes_with_pods())]
    return draw(st.permutations(found))


@st.composite
def reservations(draw: st.DrawFn, number: int) -> Reservation:
    """A pending reservation for the pods of a workload."""
    template = PlacedPod(
        uid=draw(st.sampled_from(["", "", "n1-0"])),
        name="",
        namespace="default",
        node="",
        requests={**draw(amounts), **draw(st.sampled_from([{}, {}, {}, {"gpu": 1}]))},
        peak=draw(st.one_of(st.none(), amounts)),
        node_selector=draw(zones),
        tolerations=draw(st.sampled_from([(), (PodToleration("spot"),)])),
        priority=draw(st.integers(0, 2)),
        labels=draw(labels),
        anti_affinity=draw(anti_affinities),
        spread=draw(spreads),
        host_ports=draw(ports),
        unread_rules=draw(st.sampled_from([()] * 8 + [("volumes",)])),
    )
    return Reservation(
        name=f"r{number}",
        template=template,
        owners=(ReservationOwner(workload=draw(st.sampled_from(["w1", "w2"]))),),
        created_s=float(draw(st.integers(0, 3))),
        expires_s=draw(st.one_of(st.none(), st.integers(5, 50).map(float))),
        allocate_once=draw(st.booleans()),
        pre_allocation=draw(st.sampled_from([False, False, True])),
        node=draw(st.sampled_from(["", "", "", "n1", "elsewhere"])),
        avoids=frozenset(draw(st.lists(st.sampled_from(NODES), max_size=1))),
        order=draw(st.integers(0, 2)),
    )


def many_reservations(most: int = 5) -> st.SearchStrategy[list[Reservation]]:
    """Some, each with a name of its own."""
    return st.integers(0, most).flatmap(lambda count: st.tuples(*(reservations(n) for n in range(count))).map(list))


def place_all(pending: Sequence[Reservation], left: Sequence[NodeRoom]) -> list[ReservationPlacement]:
    """Where each is placed, in this order; each finds what the former ones left."""
    index = RoomIndex(left)
    return [index.place(reservation) for reservation in pending]


def held_by_node(kept: Sequence[Reservation]) -> dict[str, dict[str, int]]:
    """What is kept on each node."""
    found: dict[str, dict[str, int]] = {}
    for reservation in kept:
        for resource, amount in reservation.held().items():
            node = found.setdefault(reservation.placed_on, {})
            node[resource] = node.get(resource, 0) + amount
    return found
