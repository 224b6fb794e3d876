"""Suites of histograms, decaying histograms and their checkpoints in koord_colocation.json.

The vectors count CPU in cores, the domain in milli-cores: the layouts are the domain's own, in the vectors' unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from koord_shapes import History, HistoryAnswer
from peer_checkpoints import BEGINNING, from_json, load, save, to_json
from shapes import answers_as, read_as
from verdicts import Adaptor, Case, Verdict, compare, not_covered, wanted

from slackwater.model.errors import InvalidInput
from slackwater.peaks.buckets import CPU_MILLI, MEMORY_BYTES, Buckets, ExponentialBuckets, LinearBuckets
from slackwater.peaks.histogram import EPSILON, HistogramMatrix

CPU_CORES = ExponentialBuckets(CPU_MILLI.first / 1000, 1024.0, CPU_MILLI.growth)
MOST_MEMORY = 2.0**41
"""The peer's layouts end at 1,024 cores and 2 TiB; ours go on as far as a value needs."""
NAMED: Mapping[str, tuple[Buckets, float]] = {
    "cpuOptions": (CPU_CORES, EPSILON),
    "memOptions": (ExponentialBuckets(MEMORY_BYTES.first, MOST_MEMORY, MEMORY_BYTES.growth), EPSILON),
}
_ROW = np.array([0])
_CLOSE = 1e-9
_UNTOLD = (1.0, 0.0)
"""Weight and time of a sample that has none."""


def layout_of(options: Mapping[str, Any] | str) -> tuple[Buckets, float]:
    """The buckets and epsilon of a case. Raises InvalidInput where there can be none."""
    if isinstance(options, str):
        return NAMED[options]
    if options["type"] == "linear":
        return LinearBuckets(options["bucketSize"], options["max"]), options.get("epsilon", EPSILON)
    layout = ExponentialBuckets(options["firstBucketSize"], options["max"], options["ratio"])
    return layout, options.get("epsilon", EPSILON)


def empty_like(given: Mapping[str, Any]) -> HistogramMatrix:
    buckets, epsilon = layout_of(given["options"])
    histogram = HistogramMatrix(buckets, given.get("halfLifeSeconds", math.inf), epsilon)
    histogram.ensure_rows(1)
    histogram.ensure_columns(buckets.count)
    return histogram


def percentile(histogram: HistogramMatrix, share: float) -> float:
    return float(histogram.percentile(_ROW, share)[0])


def options(case: Case) -> Verdict:
    """The layout alone: how many buckets, where they begin, what falls into which."""
    want = wanted(case)
    try:
        layout, epsilon = layout_of(case["in"])
        HistogramMatrix(layout, math.inf, epsilon)
    except InvalidInput:
        return compare({"error": True}, want)
    got: dict[str, Any] = {
        "numBuckets": layout.count,
        "epsilon": epsilon,
        "bucketStart": {number: float(layout.starts[int(number)]) for number in want.get("bucketStart", {})},
        "findBucket": [[value, int(layout.find(np.array([float(value)]))[0])] for value, _ in _pairs(want)],
    }
    if unknown := set(want) - set(got):
        return not_covered(f"answers named {', '.join(sorted(unknown))}")
    return compare({key: got[key] for key in want}, dict(want), relative=_CLOSE)


def _pairs(want: Mapping[str, Any]) -> Sequence[Sequence[float]]:
    found: Sequence[Sequence[float]] = want.get("findBucket", ())
    return found


def history(case: Case) -> Verdict:
    """A history that is fed by samples, operations, two halves or a checkpoint, and all that is asked of it."""
    given, want = case["in"], wanted(case)
    if "options" not in given:
        return options(case)
    try:
        histogram, wrong = _fed(given)
    except InvalidInput as error:
        return compare({"error": True}, want) if want == {"error": True} else Verdict("FAIL", str(error))
    if wrong:
        return Verdict("FAIL", wrong)
    if not isinstance(want, Mapping):
        return Verdict("pass") if "ops" in given else not_covered("an answer that is only told in words")
    if unknown := set(want) - set(_ANSWERS):
        return not_covered(f"answers named {', '.join(sorted(unknown))}")
    got, expected = {}, {}
    for key, value in want.items():
        got[key], expected[key] = _ANSWERS[key](histogram, given, value)
    return compare(got, expected, relative=_CLOSE)


def _fed(given: Mapping[str, Any]) -> tuple[HistogramMatrix, str]:
    """The history, and the first assertion between its operations that does not hold."""
    histogram, wrong = empty_like(given), ""
    for name, *arguments in given.get("ops", ()):
        if name in ("add", "sub"):
            _sample(histogram, given, arguments, histogram.add if name == "add" else histogram.subtract)
        elif bool(histogram.is_empty(_ROW)[0]) != arguments[0]:
            wrong = wrong or f"isEmpty is {not arguments[0]}, want {arguments[0]}"
    for sample in given.get("samples", ()):
        _sample(histogram, given, sample, histogram.add)
    for half in ("a", "b"):
        if half in given:
            histogram.merge(0, _of_samples(given, given[half]), 0)
    if "load" in given:
        load(histogram, 0, from_json(given["load"]))
    return histogram, wrong


def _sample(
    histogram: HistogramMatrix, given: Mapping[str, Any], sample: Sequence[float], act: Callable[..., None]
) -> None:
    """[value, weight, time]; times count from the base of the case, and are all one where there are none."""
    value, weight, at = (*sample, *_UNTOLD[len(sample) - 1 :])
    act(_ROW, np.array([float(value)]), np.array([float(given.get("baseUnix", 0) + at)]), float(weight))


def _of_samples(given: Mapping[str, Any], samples: Sequence[Sequence[float]]) -> HistogramMatrix:
    histogram = empty_like(given)
    for sample in samples:
        _sample(histogram, given, sample, histogram.add)
    return histogram


def _restored(histogram: HistogramMatrix, given: Mapping[str, Any]) -> HistogramMatrix:
    restored = empty_like(given)
    load(restored, 0, from_json(to_json(save(histogram, 0))))
    return restored


def _percentiles(histogram: HistogramMatrix, _: Mapping[str, Any], want: Any) -> tuple[Any, Any]:
    return [[share, percentile(histogram, share)] for share, _ in want], want


def _percentiles_restored(histogram: HistogramMatrix, given: Mapping[str, Any], want: Any) -> tuple[Any, Any]:
    return _percentiles(_restored(histogram, given), given, want)


def _checkpoint(histogram: HistogramMatrix, _: Mapping[str, Any], want: Any) -> tuple[Any, Any]:
    got = to_json(save(histogram, 0))
    return {key: _moment(got.get(key)) for key in want}, {key: _moment(value) for key, value in want.items()}


def _bucket_weights(histogram: HistogramMatrix, _: Mapping[str, Any], want: Any) -> tuple[Any, Any]:
    weights = dict(enumerate(histogram.weights[0].tolist()))
    got = {bucket: weights.get(int(bucket)) if bucket.isdecimal() else None for bucket in want}
    return got, {bucket: float(weight) if isinstance(weight, str) else weight for bucket, weight in want.items()}


def _as_if_sampled(histogram: HistogramMatrix, given: Mapping[str, Any], want: Any) -> tuple[Any, Any]:
    return _contents(histogram), _contents(_of_samples(given, want))


def _contents(histogram: HistogramMatrix) -> list[Any]:
    return [histogram.weights[0].tolist(), float(histogram.totals[0]), float(histogram.reference[0])]


def _moment(value: Any) -> Any:
    """Times are equal as moments, not as texts."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value
    except (ValueError, OverflowError):
        return value


_ANSWERS: Mapping[str, Callable[[HistogramMatrix, Mapping[str, Any], Any], tuple[Any, Any]]] = {
    "percentiles": _percentiles,
    "percentilesAfterCheckpointRoundTrip": _percentiles_restored,
    "checkpoint": _checkpoint,
    "bucketWeight": _bucket_weights,
    "bucketWeights": _bucket_weights,
    "equalsSamples": _as_if_sampled,
    "totalWeight": lambda histogram, _, want: (float(histogram.totals[0]), want),
    "isEmpty": lambda histogram, _, want: (bool(histogram.is_empty(_ROW)[0]), want),
    "error": lambda _, __, want: (False, want),
    "referenceTimestamp": lambda histogram, _, want: (float(histogram.reference[0]) or BEGINNING, _moment(want)),
}
"""By the name of what is asked: what we answer, and what is wanted in the same form."""

ADAPTORS: Mapping[str, Adaptor] = {
    "histogram_options": options,
    "histogram": history,
    "decaying_histogram": answers_as(HistoryAnswer | str, read_as(History, history)),
    "derived_histogram": history,
}
