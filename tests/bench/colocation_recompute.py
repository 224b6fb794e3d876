"""Recomputes all offers of 1,000, 3,000 and 10,000 nodes of 30 pods from arrays: mid and batch, aged and gated."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from tests.bench.verdict import Scale, Target

from slackwater.model.quantities import Resources
from slackwater.offers.fleet import FleetArrays, PodRows, fleet_of, no_gates
from slackwater.offers.fleet_offers import recompute
from slackwater.offers.node_offer import Gates, decide_node
from slackwater.offers.snapshot import NodeSnapshot, PodInput
from slackwater.offers.strategy import MidMode, Strategy

PODS = 30
SIZES = (1000, 3000, 10_000)
TARGET_SECONDS = 1.0
_GIB = 2**30
_STRATEGY = Strategy(mid_mode=MidMode.DYNAMIC)


def measure(sizes: tuple[int, ...] = SIZES, rounds: int = 7) -> dict[str, Any]:
    """Measures every size; the target applies to the largest."""
    found = {str(nodes): _size(nodes, rounds) for nodes in sizes}
    last = found[str(sizes[-1])]
    return {
        "targets": (Target("10,000 nodes of 30 pods", last["recompute_seconds"], TARGET_SECONDS, "s", Scale.TIME),),
        "recompute_seconds": last["recompute_seconds"],
        "nodes": found,
        **_one_by_one(),
    }


def _size(nodes: int, rounds: int) -> dict[str, Any]:
    fleet, gates, taken = fleet_of_size(nodes), no_gates(nodes), []
    for number in range(rounds):
        windows = np.full(nodes, 60 * (number + 1))
        began = time.perf_counter()
        gates = recompute(fleet, _STRATEGY, gates, windows).gates
        taken.append(time.perf_counter() - began)
    median = statistics.median(taken)
    return {
        "recompute_seconds": round(median, 4),
        "slowest_seconds": round(max(taken), 4),
        "microseconds_per_node": round(1e6 * median / nodes, 2),
    }


def _one_by_one(nodes: int = 300) -> dict[str, Any]:
    """Cost per node of the per-node function, and of building arrays from snapshots."""
    snapshots = [_snapshot(number) for number in range(nodes)]
    began = time.perf_counter()
    for snapshot in snapshots:
        decide_node(snapshot, _STRATEGY, Gates(), 60)
    alone = time.perf_counter() - began
    began = time.perf_counter()
    fleet_of(snapshots)
    return {
        "per_node_function_microseconds": round(1e6 * alone / nodes, 1),
        "arrays_of_snapshots_microseconds_per_node": round(1e6 * (time.perf_counter() - began) / nodes, 1),
    }


def fleet_of_size(nodes: int) -> FleetArrays:
    """Nodes of 30 pods each, deterministic for a number of nodes."""
    rng = np.random.default_rng(nodes)
    count = nodes * PODS
    request = np.column_stack([rng.integers(100, 4000, count), rng.integers(1, 8, count) * _GIB])
    usage = (request * rng.random((count, 1)) ** 2).astype(np.int64)
    zero, yes = np.zeros((nodes, 2), np.int64), np.ones(nodes, bool)
    system = zero + np.array([500, 2 * _GIB])
    pods = PodRows(
        node=np.repeat(np.arange(nodes), PODS),
        tier=rng.integers(0, 3, count).astype(np.intp),
        lse=rng.random(count) < 0.05,
        listed=rng.random(count) < 0.99,
        cold=rng.random(count) < 0.1,
        request=request,
        usage=usage,
        measured=rng.random(count) < 0.98,
        predicted=np.minimum(request, 2 * usage),
        has_prediction=rng.random(count) < 0.95,
        bound_seconds=np.where(rng.random(count) < 0.01, 30.0, np.inf),
    )
    capacity = zero + np.array([96_000, 384 * _GIB])
    return FleetArrays(
        capacity=capacity,
        reserved=system,
        allocatable=capacity - system,
        system=system,
        system_known=yes,
        prod_apps=zero,
        mid_apps=zero,
        node_usage=capacity // 2,
        node_usage_known=yes,
        prod_peak=capacity // 4,
        prod_peak_known=rng.random(nodes) < 0.5,
        age_seconds=rng.random(nodes) * 400,
        lost=~yes,
        pods=pods,
        kept_mid=zero,
        kept_batch=zero,
    )


def _snapshot(number: int) -> NodeSnapshot:
    used, peak = Resources(500 + number, _GIB // 2), Resources(900, _GIB)
    pods = tuple(PodInput(str(place), "prod", "LS", Resources(2000, _GIB), used, peak) for place in range(PODS))
    return NodeSnapshot(
        Resources(96_000, 384 * _GIB), Resources(500, _GIB), pods, Resources(400, _GIB), node_usage=Resources(40_000, 0)
    )
