"""The offers of a fleet on arrays are those of its nodes one by one, to the unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from drawn import gates, snapshots, strategies
from gate_arrays import gate_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.offers.fleet import fleet_of, no_gates
from slackwater.offers.fleet_offers import recompute
from slackwater.offers.node_offer import Gates, decide_node
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.snapshot import NodeSnapshot
from slackwater.offers.strategy import MidMode, Strategy

drifting = st.builds(
    PublishGate,
    published=st.integers(0, 50_000),
    drifting_since=st.integers(0, 500),
    drifting_to=st.integers(0, 50_000),
)
any_gates = st.builds(Gates, *[gates | drifting] * 4)


def roomy(node: NodeSnapshot) -> NodeSnapshot:
    """Machines that have something to offer: without them, hardly any number drawn is not zero."""
    room = Resources(200_000, 200_000)
    used = node.node_usage or Resources(10_000, 10_000)
    allocatable = node.allocatable and node.allocatable + room
    return replace(node, capacity=node.capacity + room, allocatable=allocatable, node_usage=used, lost=False)


def generous(strategy: Strategy) -> Strategy:
    """Offers mid and batch what there is, so that what pods hold shows in the offers."""
    return replace(
        strategy,
        enabled=True,
        reserved=Resources(),
        cpu_reclaim_threshold_percent=100,
        memory_reclaim_threshold_percent=100,
        batch_cpu_threshold_percent=None,
        batch_memory_threshold_percent=None,
        mid_mode=MidMode.DYNAMIC,
        mid_reclaim_ratio_percent=100,
        mid_cpu_threshold_percent=100,
        mid_memory_threshold_percent=100,
    )


some_nodes = snapshots | snapshots.map(roomy)
some_strategies = strategies | strategies.map(generous)


@settings(max_examples=150)
@given(st.lists(st.tuples(some_nodes, any_gates, st.integers(1, 1000)), min_size=1, max_size=4), some_strategies)
def test_a_fleet_decides_as_its_nodes_do(rows: list[tuple[NodeSnapshot, Gates, int]], strategy: Strategy) -> None:
    nodes, before, windows = (list(column) for column in zip(*rows, strict=True))
    found = recompute(fleet_of(nodes), strategy, gate_rows(before), np.array(windows))
    for place, (node, gate, window) in enumerate(rows):
        one = decide_node(node, strategy, gate, window)
        assert found.mid[place].tolist() == [one.mid.value.cpu_milli, one.mid.value.memory_bytes]
        assert found.batch[place].tolist() == [one.batch.value.cpu_milli, one.batch.value.memory_bytes]
        assert found.gates.row(place) == one.gates()


@given(st.lists(snapshots.map(roomy), min_size=1, max_size=4), strategies.map(generous))
def test_first_offers_of_machines_with_room_agree_too(nodes: list[NodeSnapshot], strategy: Strategy) -> None:
    nodes = [replace(node, age_seconds=0.0, prod_peak=None) for node in nodes]
    found = recompute(fleet_of(nodes), strategy, no_gates(len(nodes)), np.full(len(nodes), 60))
    for place, node in enumerate(nodes):
        one = decide_node(node, strategy, Gates(), 60)
        assert found.mid[place].tolist() == [one.mid.value.cpu_milli, one.mid.value.memory_bytes]
        assert found.batch[place].tolist() == [one.batch.value.cpu_milli, one.batch.value.memory_bytes]


@given(snapshots, strategies, st.lists(st.integers(-200, 200), min_size=1, max_size=12))
def test_it_goes_on_deciding_as_a_node_does(node: NodeSnapshot, strategy: Strategy, steps: list[int]) -> None:
    rows, alone = no_gates(1), Gates()
    for number, step in enumerate(steps):
        node = replace(node, capacity=(node.capacity + Resources(step, 50 * step)).at_least_zero())
        offer = decide_node(node, strategy, alone, 60 * number + 60)
        rows = recompute(fleet_of([node]), strategy, rows, np.array([60 * number + 60])).gates
        alone = offer.gates()
        assert rows.row(0) == alone


def test_amounts_of_real_machines_are_exact() -> None:
    memory = 3 * 2**40 + 12_345_677
    node = NodeSnapshot(Resources(384_000, memory), Resources(), (), Resources(7, memory // 7))
    found = recompute(fleet_of([node] * 3), Strategy(), no_gates(3), np.array([60, 60, 60]))
    one = decide_node(node, Strategy(), Gates(), 60)
    assert found.batch.tolist() == [[one.batch.value.cpu_milli, one.batch.value.memory_bytes]] * 3


def test_a_fleet_without_pods_and_one_without_nodes_are_fleets() -> None:
    empty = recompute(fleet_of([]), Strategy(), no_gates(0), np.empty(0, np.int64))
    assert empty.batch.shape == (0, 2)
