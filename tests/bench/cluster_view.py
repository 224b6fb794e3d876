"""The cluster fold into arrays: CPU time per report and view, memory, and the ratio to a fold in plain Python.

A cycle of a reader is its work between two decisions: it applies the reports of a tenth of the nodes and sums the usage
of the pods by tier. The plain fold keeps the events and iterates over the pods.
"""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
from tests.bench.verdict import Scale, Target
from tests.support.clock import EPOCH
from tests.support.plain_cluster import PlainCluster
from tests.support.reports import GIB, described, pod, pod_usage, report

from slackwater.cluster.fold import ClusterFold
from slackwater.cluster.view import TIERS
from slackwater.events.envelope import Event, event_of
from slackwater.events.measures import PodUsage
from slackwater.events.peak_predicted import PeakPredicted, PodPeak
from slackwater.events.pod_columns import by_columns
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier

PODS = 30
SIZES = (1000, 3000, 10_000)
PLAIN_NODES = 1000
TARGET_VIEW_SECONDS, TARGET_REPORT_MICROSECONDS, TARGET_BYTES_PER_POD = 0.3, 150.0, 1500.0
_CHUNK = 500
_TIERS = tuple(Tier)


def measure(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """Measures every size; the targets apply to the largest."""
    found = {str(nodes): _size(nodes) for nodes in sizes}
    last = found[str(sizes[-1])]
    beside = _beside_the_plain_fold()
    return {
        "targets": (
            Target("a view of 10,000 nodes of 30 pods", last["view_seconds"], TARGET_VIEW_SECONDS, "s", Scale.TIME),
            Target("a report", last["report_microseconds"], TARGET_REPORT_MICROSECONDS, "µs", Scale.TIME),
            Target("memory per pod", last["bytes_per_pod"], TARGET_BYTES_PER_POD, "B"),
        ),
        "ratios": (
            {"told": f"plain fold {beside['sums_ratio']:.1f} times as long to sum usage by tier"},
            {"told": f"plain fold {beside['cycle_ratio']:.1f} times as long for a cycle of a reader"},
        ),
        "nodes": found,
        "beside_the_plain_fold": beside,
    }


def _size(nodes: int) -> dict[str, Any]:
    """Fills in chunks, so that the measured memory excludes the events. Apply and view are timed on a second fill,
    because tracing costs time."""
    gc.collect()
    tracemalloc.start()
    traced = ClusterFold()
    _fill(traced.apply, nodes)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del traced
    fold = ClusterFold()
    _fill(fold.apply, nodes)
    events = [_report(number, 2) for number in range(0, nodes, max(1, nodes // _CHUNK))]
    began = time.process_time()
    for event in events:
        fold.apply(event)
    reports = (time.process_time() - began) / len(events)
    return {
        "report_microseconds": round(1e6 * reports, 1),
        "view_seconds": round(_median(lambda: fold.view(EPOCH + timedelta(seconds=60))), 4),
        "view_megabytes": round(_bytes_of_view(fold) / 1e6, 1),
        "megabytes": round(held / 1e6, 1),
        "bytes_per_pod": round(held / (nodes * PODS)),
    }


def _beside_the_plain_fold() -> dict[str, Any]:
    """Compares both results before either is timed."""
    fold, plain = ClusterFold(), PlainCluster()
    _fill(fold.apply, PLAIN_NODES)
    _fill(plain.apply, PLAIN_NODES)
    view, nodes = fold.view(EPOCH), plain.view(EPOCH)
    if _sums(fold) != _plain_sums(plain) or len(view.nodes.rows) != len(nodes):
        raise RuntimeError("the arrays and the plain fold have different results")
    sums, plain_sums = _median(lambda: _sums(fold)), _median(lambda: _plain_sums(plain))
    sequence = iter(range(3, 100))

    def cycle(apply: Callable[[Event[Any]], Any], ask: Callable[[], Any]) -> float:
        """Seconds of a cycle, without creating the events."""
        number = next(sequence)
        events = [_report(node, number) for node in range(0, PLAIN_NODES, 10)]
        began = time.process_time()
        for event in events:
            apply(event)
        ask()
        return time.process_time() - began

    ours = statistics.median(cycle(fold.apply, lambda: _sums(fold)) for _ in range(5))
    theirs = statistics.median(cycle(plain.apply, lambda: _plain_sums(plain)) for _ in range(5))
    return {
        "nodes": PLAIN_NODES,
        "sums_milliseconds": round(1e3 * sums, 2),
        "plain_sums_milliseconds": round(1e3 * plain_sums, 2),
        "sums_ratio": round(plain_sums / sums, 1),
        "cycle_milliseconds": round(1e3 * ours, 2),
        "plain_cycle_milliseconds": round(1e3 * theirs, 2),
        "cycle_ratio": round(theirs / ours, 1),
    }


def _sums(fold: ClusterFold) -> list[tuple[int, int]]:
    """Usage by tier, the view included."""
    pods = fold.view(EPOCH).pods
    return [pods.usage.total(pods.exists & (pods.tier == code)) for code in range(len(TIERS))]


def _plain_sums(plain: PlainCluster) -> list[tuple[int, int]]:
    sums = {tier: [0, 0] for tier in _TIERS}
    for node in plain.view(EPOCH).values():
        for found in node.pods.values():
            own = sums[found.described.tier]
            own[0] += found.usage[0] or 0
            own[1] += found.usage[1] or 0
    return [(cpu, memory) for cpu, memory in sums.values()]


def _fill(apply: Callable[[Event[Any]], Any], nodes: int) -> None:
    for first in range(0, nodes, _CHUNK):
        for number in range(first, min(first + _CHUNK, nodes)):
            for event in _events(number):
                apply(event)


def _events(number: int) -> Sequence[Event[Any]]:
    node = _name(number)
    peaks = tuple(
        PodPeak(uid, f"default/{uid}", "prod", Resources(600, GIB), cold_start=False) for uid in _uids(number)
    )
    amount = Resources(2000, GIB)
    offered = ResourcesOffered(
        node=node, offered_at=EPOCH, generation=1, batch=amount, degraded=None, decision_ids={}, mid=amount
    )
    predicted = PeakPredicted.model_construct(
        node=node, predicted_at=EPOCH, window_number=1, window_seconds=60, model="m", samples=1, cold_start_share=0.0,
        node_peak=amount, system_peak=amount, tier_peaks={"prod": amount}, prod_peak=amount, prod_reclaimable=amount,
        pods=peaks, decision_id="d", confidence=1.0,
    )  # fmt: skip
    return [_event(described(node, EPOCH)), _report(number, 1), _event(predicted), _event(offered)]


def _report(number: int, sequence: int) -> Event[UsageReported]:
    """A report as the fast decoder of a consumer returns it: descriptions of pods beside columns."""
    pods = [_pod(uid, place, sequence) for place, uid in enumerate(_uids(number))]
    data = report(_name(number), sequence, EPOCH + timedelta(seconds=sequence))
    return _event(data.model_copy(update={"pods": by_columns(pods)}))


def _pod(uid: str, place: int, sequence: int) -> PodUsage:
    usage = pod_usage(uid, _TIERS[place % len(_TIERS)], 100 + place + sequence)
    described = replace(pod(uid, _TIERS[place % len(_TIERS)]), workload=f"default/w{place}")
    return replace(usage, pod=described)


def _name(number: int) -> str:
    return f"node-{number:05d}"


def _uids(number: int) -> Sequence[str]:
    return [f"0190c3f2-7a1b-7c3d-8e4f-{number:06d}{place:06d}" for place in range(PODS)]


def _event(data: Any) -> Event[Any]:
    return event_of(data, source="bench", time=EPOCH, id="bench")


def _median(call: Callable[[], Any], rounds: int = 5) -> float:
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def _bytes_of_view(fold: ClusterFold) -> int:
    """Bytes of the arrays only; the view shares texts with the fold."""
    view = fold.view(EPOCH)
    return sum(
        array.nbytes
        for columns in (view.nodes, view.pods)
        for name in columns.__dataclass_fields__
        for value in [getattr(columns, name)]
        for array in (value, getattr(value, "value", None), getattr(value, "known", None))
        if isinstance(array, np.ndarray)
    )
