"""Slackwater's algorithms beside those of peers, in plain Python, alternately on the same input.

    histogram_add, histogram_percentile   a decaying histogram per series (Vertical Pod Autoscaler, koordlet)
    percentiles                           p50, p90, p95 and p99 of a window, sorted for each (koordlet's metric cache)
    batch_formula                         capacity - margin - system - used by prod, pod by pod (koord-manager);
                                          ours also computes mid, ages inputs and gates publications
    polling                               one cycle of a loop that opens, reads and closes three files for 110 pods

A ratio above 1 says how many times longer the peer's algorithm takes. Both results are compared before either is timed.
The speed of a peer in Go is not measured: the ratios compare algorithms in one language.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.bench.colocation_recompute import fleet_of_size

from slackwater.agent.adapters.linux.files import KeptFiles
from slackwater.agent.domain.windows import Summary, summarize
from slackwater.model.tiers import Tier
from slackwater.offers.fleet import TIERS, FleetArrays, no_gates
from slackwater.offers.fleet_offers import recompute
from slackwater.offers.strategy import Strategy
from slackwater.peaks.buckets import CPU_MILLI
from slackwater.peaks.histogram import HistogramMatrix

SERIES, SAMPLES, HALF_LIFE_SECONDS = 2000, 20, 86_400.0
NODES, PODS, WINDOW = 3000, 110, 60
_ROUNDS = 5
_FILES = ("/proc/stat", "/proc/meminfo", "/proc/self/stat")


@dataclass(slots=True)
class DecayingHistogram:
    """One series: exponential buckets in which later samples weigh more."""

    weights: list[float] = field(default_factory=lambda: [0.0] * CPU_MILLI.count)
    total: float = 0.0

    def add(self, value: float, at_seconds: float) -> None:
        weight = 2.0 ** (at_seconds / HALF_LIFE_SECONDS)
        bucket = 0
        if value >= CPU_MILLI.first:
            ratio = CPU_MILLI.growth
            bucket = int(math.log(value * (ratio - 1) / CPU_MILLI.first + 1) / math.log(ratio))
        self.weights[min(bucket, CPU_MILLI.count - 1)] += weight
        self.total += weight

    def percentile(self, share: float) -> float:
        partial = 0.0
        for bucket, weight in enumerate(self.weights):
            partial += weight
            if weight > 0 and partial >= share * self.total:
                return _start(min(bucket + 1, CPU_MILLI.count - 1))
        return 0.0


def polled_percentiles(values: list[int]) -> tuple[int, ...]:
    """Percentiles with one sort and one index each."""
    return tuple(sorted(values)[math.ceil(share * len(values)) - 1] for share in (0.5, 0.9, 0.95, 0.99))


Amounts = tuple[int, int]
PodLine = tuple[str, bool, bool, Amounts]
"""Name, whether it is prod, whether it is LSE, request."""


def batch_of_node(
    pods: list[PodLine], metrics: dict[str, Amounts], capacity: Amounts, system: Amounts, percent: Amounts
) -> list[int]:
    """CPU and memory of one node. A pod without a metric counts with its request, as does the CPU of an LSE pod."""
    used = [0, 0]
    for name, prod, lse, request in pods:
        if not prod:
            continue
        usage = metrics.get(name, request)
        used[0] += request[0] if lse else usage[0]
        used[1] += usage[1]
    return [
        max(0, whole - whole * (100 - share) // 100 - kept - taken)
        for whole, share, kept, taken in zip(capacity, percent, system, used, strict=True)
    ]


def poll(paths: list[str]) -> int:
    """Open, read and close each file as text; returns the number of characters."""
    found = 0
    for path in paths:
        with Path(path).open() as file:
            found += len(file.read())
    return found


def measure() -> dict[str, Any]:
    """Every ratio, with both times."""
    ratios = [*_histogram(), _percentiles(), _batch(), _polling()]
    return {"ratios": ratios}


def _histogram() -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    values = rng.random((SAMPLES, SERIES)) ** 3 * 4000
    moments = 300.0 * np.arange(SAMPLES)
    rows, matrix = np.arange(SERIES), HistogramMatrix(CPU_MILLI, HALF_LIFE_SECONDS)
    matrix.ensure_rows(SERIES)
    peers = [DecayingHistogram() for _ in range(SERIES)]

    def ours() -> None:
        for number, at in enumerate(moments):
            matrix.add(rows, values[number], np.full(SERIES, at))

    lines = values.tolist()

    def peer() -> None:
        for number, at in enumerate(moments.tolist()):
            for series, value in enumerate(lines[number]):
                peers[series].add(value, at)

    added = _ratio("histogram_add", ours, peer, SERIES * SAMPLES, "sample")
    expected = [each.percentile(0.95) for each in peers]
    if not np.allclose(matrix.percentile(rows, 0.95), expected):
        raise RuntimeError("histogram: both ways must give the same percentiles")
    read = _ratio(
        "histogram_percentile",
        lambda: matrix.percentile(rows, 0.95),
        lambda: [each.percentile(0.95) for each in peers],
        SERIES,
        "series",
    )
    return [added, read]


def _percentiles() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    windows: list[list[int]] = rng.integers(0, 4000, (PODS, WINDOW)).tolist()
    if [_told(summarize(values, values[-1])) for values in windows] != [polled_percentiles(each) for each in windows]:
        raise RuntimeError("percentiles: both ways must give the same")
    return _ratio(
        "percentiles",
        lambda: [_told(summarize(values, values[-1])) for values in windows],
        lambda: [(polled_percentiles(values), sum(values) / len(values), max(values)) for values in windows],
        PODS,
        "window",
    )


def _batch() -> dict[str, Any]:
    fleet, gates, strategy = fleet_of_size(NODES), no_gates(NODES), Strategy()
    nodes = _as_objects(fleet)
    capacity = fleet.capacity.tolist()
    system = np.maximum(fleet.system, fleet.reserved).tolist()
    windows = np.full(NODES, 60)
    percent = (strategy.cpu_reclaim_threshold_percent, strategy.memory_reclaim_threshold_percent)

    def peer() -> list[list[int]]:
        return [
            batch_of_node(pods, metrics, capacity[n], system[n], percent) for n, (pods, metrics) in enumerate(nodes)
        ]

    return _ratio("batch_formula", lambda: recompute(fleet, strategy, gates, windows), peer, NODES, "node")


def _polling() -> dict[str, Any]:
    paths = list(_FILES) * PODS
    kept = KeptFiles()
    try:
        return _ratio("polling", lambda: [kept.read(path) for path in paths], lambda: poll(paths), len(paths), "file")
    finally:
        kept.close()


def _ratio(name: str, ours: Callable[[], object], peer: Callable[[], object], count: int, unit: str) -> dict[str, Any]:
    """Medians of alternate runs, so that disturbances affect both alike."""
    taken: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(_ROUNDS):
        for which, work in (("ours", ours), ("peer", peer)):
            began = time.perf_counter()
            work()
            taken[which].append(time.perf_counter() - began)
    micro = {which: 1e6 * statistics.median(seconds) / count for which, seconds in taken.items()}
    ratio = micro["peer"] / micro["ours"]
    told = f"{name}: {ratio:.1f} x (peer {micro['peer']:.2f} us a {unit}, ours {micro['ours']:.2f})"
    return {"name": name, "ratio": round(ratio, 2), "unit": f"us a {unit}", **micro, "told": told}


def _told(summary: Summary) -> tuple[int, ...]:
    return summary.p50, summary.p90, summary.p95, summary.p99


def _as_objects(fleet: FleetArrays) -> list[tuple[list[PodLine], dict[str, Amounts]]]:
    """The pods of each node, and the metrics of the measured ones."""
    pods, prod = fleet.pods, TIERS.index(Tier.PROD)
    found: list[tuple[list[PodLine], dict[str, Amounts]]] = [([], {}) for _ in range(len(fleet.capacity))]
    requests, usages = pods.request.tolist(), pods.usage.tolist()
    for row, node in enumerate(pods.node.tolist()):
        lines, metrics = found[node]
        lines.append((f"pod-{row}", bool(pods.tier[row] == prod), bool(pods.lse[row]), tuple(requests[row])))
        if pods.measured[row]:
            metrics[f"pod-{row}"] = tuple(usages[row])
    return found


def _start(bucket: int) -> float:
    return CPU_MILLI.first * (CPU_MILLI.growth**bucket - 1) / (CPU_MILLI.growth - 1)
