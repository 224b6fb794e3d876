"""Prediction's state at fleet size: accept windows, fold, predict, snapshot and restore.

30 pods per node, each with its own workload (the worst case), in the eight partitions of a single replica. A round is
one window of every node; the time to create windows is not counted. Two partitions are processed at a time.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from tests.bench.verdict import Scale, Target

from slackwater.model.identifiers import PARTITIONS, partition_of
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.forecast import forecast
from slackwater.prediction.domain.policy import PoolPolicies
from slackwater.prediction.domain.snapshot import Snapshot, decode, encode
from slackwater.prediction.domain.state import DEFAULT_POOL, NodeWindow, PartitionState

PODS = 30
SIZES = (1_000, 3_000, 10_000)
_START = 1_700_006_400
_HOURS = 3
_STARTED = datetime.fromtimestamp(_START, UTC)
_REQUEST = Resources(4_000, 8 * 2**30)


def measure(nodes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Measures every size, smallest first."""
    sizes = {str(count): _one(count) for count in sorted(nodes)}
    largest, smallest = sizes[str(max(nodes))], sizes[str(min(nodes))]
    growth = largest["all_predictions_seconds"] / max(nodes) / (smallest["all_predictions_seconds"] / min(nodes))
    kept = largest["snapshot_seconds"] + largest["restore_seconds"]
    return {
        "sizes": sizes,
        "series_updates_per_second": largest["updates_per_second"],
        "all_predictions_seconds": largest["all_predictions_seconds"],
        "snapshot_and_restore_seconds": round(kept, 2),
        "cost_per_node_largest_to_smallest": round(growth, 2),
        "targets": (
            Target("updates", largest["updates_per_second"] / 1e6, 10, "M/s", Scale.RATE),
            Target("all predictions", largest["all_predictions_seconds"], 1, "s", Scale.TIME),
            Target("snapshot and restore", round(kept, 2), 10, "s", Scale.TIME),
            Target("memory", largest["rss_mib"], 1024, "MiB"),
            Target("cost of a node, largest to smallest fleet", round(growth, 2), 1.5),
        ),
    }


def _one(nodes: int) -> dict[str, Any]:
    policies = PoolPolicies()
    states = [PartitionState(policies, model_of) for _ in range(PARTITIONS)]
    names = [f"node-{number:05}" for number in range(nodes)]
    with ThreadPoolExecutor(2) as threads:

        def beside(work: Callable[[PartitionState], object]) -> float:
            began = time.perf_counter()
            list(threads.map(work, states))
            return time.perf_counter() - began

        for number in range(_HOURS):
            taking = _round(states, names, number * 3600)
            beside(_fold)
        _round(states, names, _HOURS * 3600 - 1800)
        hour = beside(_fold)
        rounds = []
        for number in range(1, 6):
            taking = _round(states, names, _HOURS * 3600 - 1800 + 60 * number)
            rounds.append(beside(_fold))
        folding = statistics.median(rounds)
        predictions = min(beside(_predict) for _ in range(3))
        kept: dict[int, Snapshot] = {}
        snapshot = beside(lambda state: kept.update({states.index(state): encode(state, 1)}))
        size = sum(len(one.body) for one in kept.values())
        states.clear()
        began = time.perf_counter()
        states += [one for one, _ in threads.map(lambda n: decode(kept[n], policies, model_of), range(PARTITIONS))]
        restore = time.perf_counter() - began
        kept.clear()
        again = min(beside(_predict) for _ in range(3))
    series = 2 * sum(state.series for state in states)
    return {
        "series": series,
        "take_microseconds_per_window": round(taking / nodes * 1e6, 1),
        "round_seconds": round(folding, 4),
        "round_that_begins_an_hour_seconds": round(hour, 3),
        "updates_per_second": round(series / folding),
        "all_predictions_seconds": round(max(predictions, again), 3),
        "snapshot_seconds": round(snapshot, 2),
        "snapshot_mib": round(size / 2**20, 1),
        "restore_seconds": round(restore, 2),
        "rss_mib": round(_rss()),
        "rss_highest_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def _round(states: Sequence[PartitionState], names: Sequence[str], seconds: int) -> float:
    """Accepts one window of every node; returns the seconds."""
    taking = 0.0
    for sight in _windows(names, _START + seconds):
        state = states[partition_of(sight.name)]
        began = time.perf_counter()
        state.apply_window(sight)
        taking += time.perf_counter() - began
    return taking


def _windows(names: Sequence[str], end: int) -> Iterator[NodeWindow]:
    rng = np.random.default_rng(end)
    for name in names:
        pods = [
            Pod(f"{name}-{n}", f"{n}", "bench", f"bench/{name}/{n}", Tier.PROD, QoSClass.LS, 9500, _REQUEST, _STARTED)
            for n in range(PODS)
        ]
        usage = rng.random((PODS, 2)) ** 3 * (_REQUEST.cpu_milli, _REQUEST.memory_bytes)
        whole = (float(usage[:, 0].sum()), float(usage[:, 1].sum()))
        yield NodeWindow(name, end - 60, end, end // 60, pods, np.rint(usage), whole, (200.0, 2.0**30))


def _fold(state: PartitionState) -> None:
    for pool in state.pools.values():
        state.fold(pool)


def _predict(state: PartitionState) -> None:
    allocatable = np.full((len(state.by_number), 2), (64_000.0, 256.0 * 2**30))
    for name in (DEFAULT_POOL,):
        forecast(state.pools[name], state.policies.of(name), allocatable, float(state.latest_seconds))


def _rss() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
