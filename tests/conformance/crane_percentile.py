"""The percentile prediction of crane.json, and how its configuration is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from crane_settings import EstimateSettings, number_of, seconds_of, settings_of
from crane_shapes import Duration, DurationAnswer, Percentile, PercentileAnswer
from shapes import answers_as, read_as
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, tolerance, wanted

from slackwater.model.errors import InvalidInput
from slackwater.peaks.decaying_histograms import DecayingHistograms
from slackwater.peaks.port import Members

_BASE = 1_700_000_000.0
_ONE = np.zeros(1, dtype=np.intp)
_ALONE = Members(_ONE, _ONE, _ONE, np.array([1e300]), np.zeros(1))
_KNOWN = (
    "percentile", "marginFraction", "targetUtilization", "minSampleWeight", "bucketSize", "maxValue",
    "firstBucketSize", "growth", "epsilon", "halfLife", "sampleInterval", "historyLength",
)  # fmt: skip
_SHORT = {
    "bucketSizeGrowthRatio": "growth", "margin": "marginFraction", "target": "targetUtilization",
    "minWeight": "minSampleWeight", "minW": "minSampleWeight", "interval": "sampleInterval", "max": "maxValue",
    "targetUtil": "targetUtilization", "p": "percentile", "growthRatio": "growth", "firstBucket": "firstBucketSize",
    "initMode": "historyLength", "aggregated": "historyLength", "history": "historyLength",
}  # fmt: skip
_NAMES = {name.lower(): full for name, full in {**dict(zip(_KNOWN, _KNOWN, strict=True)), **_SHORT}.items()}
"""The vectors write names of the configuration in short as well. What is about when a peer is ready, and how much it
reads, is told with `historyLength`, which says nothing of the estimate."""


def percentile(case: Case) -> Verdict:
    given, want, near = case["in"], wanted(case), tolerance(case)
    config = {name: _NAMES.get(name.replace("_", "").lower()) for name in given.get("config", {})}
    if unread := [name for name, known in config.items() if known is None]:
        return Verdict("FAIL", f"in.config: {', '.join(unread)} is no setting of a percentile")
    texts = {str(config[name]): str(text) for name, text in given.get("config", {}).items()}
    try:
        settings = settings_of(texts)
    except InvalidInput as error:
        is_beyond = not want.get("error") and "out of range" in str(error)
        return differ("percentile-in-range") if is_beyond else _refused(want, error)
    if unknown := set(want) - set(_answers(settings, given)):
        return not_covered(f"answers named {', '.join(sorted(unknown))}")
    verdict = _judge(settings, given, want, near)
    if verdict.word == "pass":
        return verdict
    never_forgets = _judge(replace(settings, half_life_seconds=inf), given, want, near)
    return differ("half-life-counts") if never_forgets.word == "pass" else verdict


def _judge(settings: EstimateSettings, given: Mapping[str, Any], want: Mapping[str, Any], tolerance: float) -> Verdict:
    got = _answers(settings, given)
    return compare({key: got[key] for key in want}, dict(want), relative=tolerance)


def _refused(want: Mapping[str, Any], error: InvalidInput) -> Verdict:
    return Verdict("pass") if want.get("error") else Verdict("FAIL", f"got {error}, want {dict(want)!r}")


def _answers(settings: EstimateSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    samples = [sample for sample in given.get("samples", []) if sample is not None]
    return {
        "estimate": estimate(settings, samples, given.get("sample_step_s", 60)),
        "num_buckets": settings.buckets.count,
        "window_seconds": len(samples) * settings.sample_interval_seconds,
        "error": False,
    }


def estimate(settings: EstimateSettings, samples: Sequence[float], step_seconds: float = 60.0) -> float:
    """What the model says of one pod that may use anything; nothing before the first sample."""
    model = DecayingHistograms(settings.options, settings.buckets)
    for number, value in enumerate(samples):
        model.fold(_BASE + number * step_seconds, _ALONE, np.array([float(value)]))
    found = model.peaks(_BASE, _ALONE)
    return 0.0 if found.cold_share[0] else float(found.peak[0])


def duration(case: Case) -> Verdict:
    want, text = wanted(case), case["in"].get("s", "")
    try:
        got = {"error": False, "seconds": seconds_of(text, "duration")}
    except InvalidInput as error:
        refused = _refused(want, error)
        ours_refuses = text != text.strip() or text.endswith(("w", "y"))
        return differ("go-durations") if refused.word == "FAIL" and ours_refuses else refused
    verdict = compare({key: got.get(key) for key in want}, dict(want), relative=1e-12)
    return differ("go-durations") if verdict.word == "FAIL" and want.get("error") and "d" in text else verdict


def number(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    try:
        got = {"error": False, "value": number_of({"s": given["s"]}, "s", given["default"])}
    except InvalidInput as error:
        return _refused(want, error)
    return compare({key: got.get(key) for key in want}, dict(want), relative=1e-12)


ADAPTORS: Mapping[str, Adaptor] = {
    "percentile": answers_as(PercentileAnswer, read_as(Percentile, percentile)),
    "parse_duration": answers_as(DurationAnswer, read_as(Duration, duration)),
    "parse_float_default": number,
}
