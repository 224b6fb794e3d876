"""Suites of histograms and peak predictors in koord_colocation.json."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.model.quantities import Resources
from slackwater.prediction.domain.buckets import CPU_MILLI, Buckets, ExponentialBuckets, Floats, Rows
from slackwater.prediction.domain.histogram import HistogramMatrix
from slackwater.prediction.domain.peaks import (
    Learned,
    NodeSeries,
    PeakSettings,
    PodSeries,
    View,
    pod_view,
    tier_view,
)

NAMED_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "cpuOptions": {"type": "exponential", "max": 1024, "firstBucketSize": 0.025, "ratio": 1.05, "epsilon": 1e-4},
    "memOptions": {"type": "exponential", "max": 2**41, "firstBucketSize": 5 * 2**20, "ratio": 1.05, "epsilon": 1e-4},
}
_ZERO = np.array([0])
_WARM = PeakSettings().min_windows


class LinearBuckets:
    """Equal buckets: only the vectors have them; the matrix takes any layout."""

    def __init__(self, size: float, maximum: float) -> None:
        self.size = size
        self.count = int(np.ceil(maximum / size)) + 1

    @cached_property
    def starts(self) -> Floats:
        return np.arange(self.count) * self.size

    def find(self, values: Floats) -> Rows:
        found = (np.maximum(values, 0.0) / self.size).astype(np.intp)
        return np.minimum(found, self.count - 1)


def buckets_of(options: Mapping[str, Any] | str) -> tuple[Buckets, float]:
    named = NAMED_OPTIONS[options] if isinstance(options, str) else options
    if named["type"] == "linear":
        return LinearBuckets(named["bucketSize"], named["max"]), named["epsilon"]
    return ExponentialBuckets(named["firstBucketSize"], named["max"], named["ratio"]), named["epsilon"]


def empty_histogram(options: Mapping[str, Any] | str, half_life: float = 1.0) -> HistogramMatrix:
    buckets, epsilon = buckets_of(options)
    histogram = HistogramMatrix(buckets, half_life, epsilon)
    histogram.ensure_rows(1)
    return histogram


def add(histogram: HistogramMatrix, value: float, weight: float = 1.0, at: float = 0.0) -> None:
    histogram.add(_ZERO, np.array([float(value)]), np.array([float(at)]), weight)


def percentile(histogram: HistogramMatrix, share: float) -> float:
    return float(histogram.percentile(_ZERO, share)[0])


def percentiles(histogram: HistogramMatrix, want: list[list[float]], relative: float) -> Verdict:
    return compare([[share, percentile(histogram, share)] for share, _ in want], want, relative=relative)


def histogram_options(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if given["type"] == "linear":
        return not_covered("linear buckets: nothing here uses them")
    layout = ExponentialBuckets(given["firstBucketSize"], given["max"], given["ratio"])
    got: dict[str, Any] = {
        "numBuckets": layout.count,
        "bucketStart": {number: float(layout.starts[int(number)]) for number in want.get("bucketStart", {})},
        "findBucket": [[value, int(layout.find(np.array([float(value)]))[0])] for value, _ in want["findBucket"]],
    }
    return compare({key: got[key] for key in want}, dict(want), relative=1e-9)


def plain_histogram(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if "checkpoint" in want or "load" in given:
        return differ("snapshot-format")
    if "ops" not in given:
        return not_covered("merging two histograms")
    if any(op[0] == "sub" for op in given["ops"]):
        return not_covered("taking samples out again")
    histogram = empty_histogram(given["options"])
    for name, *arguments in given["ops"]:
        if name == "add":
            add(histogram, *arguments)
        elif (histogram.weights < histogram.epsilon).all() != arguments[0]:
            return Verdict("FAIL", f"isEmpty is {not arguments[0]}, want {arguments[0]}")
    if not isinstance(want, Mapping):
        return Verdict("pass")
    if set(want) != {"percentiles"}:
        return not_covered(f"{', '.join(sorted(want))}")
    return percentiles(histogram, want["percentiles"], 1e-12)


def decaying_histogram(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if "load" in given or "checkpoint" in want:
        return differ("snapshot-format")
    if "samples" not in given or set(want) != {"percentiles"}:
        return not_covered("merging two histograms")
    histogram = empty_histogram(given["options"], given["halfLifeSeconds"])
    for value, weight, at in given["samples"]:
        add(histogram, value, weight, at)
    return percentiles(histogram, want["percentiles"], 1e-12)


def derived_histogram(case: Case) -> Verdict:
    """Percentiles, total weight and reference time; the peer's coarser checkpoint weights are not ours."""
    given, want = case["in"], wanted(case)
    if "samples" not in given:
        return histogram_options(case)
    histogram = empty_histogram(given["options"], given["halfLifeSeconds"])
    for value, weight, after in given["samples"]:
        add(histogram, value, weight, given["baseUnix"] + after)
    if "percentiles" not in want:
        return not_covered(", ".join(sorted(want)))
    verdict = percentiles(histogram, want["percentiles"], 1e-9)
    total = want.get("checkpoint", {}).get("totalWeight")
    if verdict.word != "pass" or total is None:
        return verdict
    return compare(float(histogram.totals[0]), float(total), relative=1e-9)


def predict_server(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if "hist" in given:
        histogram = empty_histogram(f"{given['hist'].replace('memory', 'mem')}Options")
        for value in given["samples"]:
            add(histogram, value)
        near = [(percentile(histogram, 0.0), want["p0_within_5pct_of"])]
        near.append((percentile(histogram, 1.0), want["p100_within_5pct_of"]))
        return compare([abs(got - value) <= 0.05 * value for got, value in near], [True, True])
    if given.get("pod1_cpu_samples", "").startswith("1..100"):
        ramp = HistogramMatrix(CPU_MILLI, 43200.0)
        ramp.ensure_rows(1)
        for number in range(1, 101):
            add(ramp, 1000.0 * number, at=60.0 * number)
        return compare(percentile(ramp, 0.9) >= want["pod1_p90_cpu_milli_min"], True)
    if "modelsAfterTraining" in want:
        return differ("absent-tiers")
    if "checkpointed" in want or "checkpointedAtEach" in want:
        return differ("snapshot-format")
    return not_covered(", ".join(sorted(given)))


def checkpoint_file(_: Case) -> Verdict:
    return differ("snapshot-format")


def reclaimable_min(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    if (why := _unusual(given)) is not None:
        return not_covered(why)
    by_pods, by_tier = _views(given, pod_view), _views(given, tier_view)
    got = {
        "pod": _amounts(by_pods, "reclaimable"),
        "priority": _amounts(by_tier, "reclaimable"),
        "reclaimable": {key: min(by_pods[key].reclaimable, by_tier[key].reclaimable) for key in ("cpu", "mem")},
    }
    return compare({key: got[key] for key in want}, dict(want)) if set(want) <= set(got) else not_covered("shape")


def one_view(view: Any, part: str) -> Adaptor:
    def adapt(case: Case) -> Verdict:
        given, want = case["in"], wanted(case)
        if (why := _unusual(given)) is not None:
            return not_covered(why)
        if not isinstance(want, Mapping) or set(want) != {"cpu", "mem"}:
            return not_covered("shape of the answer")
        return compare(_amounts(_views(given, view), part), dict(want))

    return adapt


def _unusual(given: Mapping[str, Any]) -> str | None:
    """What our vocabulary does not have."""
    none = given.get("tierPredictions", {}).get("none", {})
    if any(amount for quantile in none.values() for amount in quantile.values()):
        return "usage of pods without a tier: every pod has one here"
    if any(pod["tier"] == "" for pod in given["pods"]):
        return "pods without a tier: every pod has one here"
    return None


def _views(given: Mapping[str, Any], view: Any) -> dict[str, View]:
    series, settings = _series(given), PeakSettings(safety_margin_percent=given.get("safetyMarginPercent", 10))
    return {"cpu": view(series, "cpu", settings), "mem": view(series, "memory", settings)}


def _amounts(views: Mapping[str, View], part: str) -> dict[str, int]:
    return {key: getattr(view, part) for key, view in views.items()}


def _series(given: Mapping[str, Any]) -> NodeSeries:
    """Pods that are being deleted are left out: the agent stops measuring what has ended (see differences.md).

    A pod that is young to the peer has a model that has seen nothing to us.
    """
    tiers = {tier: _learned(found) for tier, found in given.get("tierPredictions", {}).items()}
    return NodeSeries(
        node="n",
        allocatable=Resources(given["nodeAllocatable"]["cpu"], given["nodeAllocatable"]["mem"]),
        pods=tuple(_pod(pod, given) for pod in given["pods"] if not _ended(pod)),
        tiers={"prod": tiers["prod"]} if "prod" in tiers else {},
        system=tiers.get("sys"),
        whole=None,
    )


def _ended(pod: Mapping[str, Any]) -> bool:
    return bool(pod.get("deleting")) or pod.get("phase") in ("Succeeded", "Failed")


def _pod(pod: Mapping[str, Any], given: Mapping[str, Any]) -> PodSeries:
    found = given.get("podPredictions", {}).get(pod["name"])
    young = pod.get("ageSeconds", 10**9) <= given.get("coldStartSeconds", 0)
    learned = None if young or found is None else _learned(found)
    request = Resources(pod["req"]["cpu"], pod["req"]["mem"])
    return PodSeries(pod["name"], "w", pod["tier"], pod.get("qos", "LS"), request, learned)


def _learned(found: Mapping[str, Mapping[str, int]]) -> Learned:
    return Learned(found["p95"]["cpu"], found["p98"]["mem"], _WARM)


ADAPTORS: Mapping[str, Adaptor] = {
    "histogram_options": histogram_options,
    "histogram": plain_histogram,
    "decaying_histogram": decaying_histogram,
    "derived_histogram": derived_histogram,
    "predict_server": predict_server,
    "checkpoint_file": checkpoint_file,
    "prod_reclaimable_min": reclaimable_min,
    "pod_reclaimable": one_view(pod_view, "reclaimable"),
    "pod_peak": one_view(pod_view, "peak"),
    "priority_reclaimable": one_view(tier_view, "reclaimable"),
}
