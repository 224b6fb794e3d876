"""How a peer's configuration of a percentile is written: texts, and what they may be.

The percentile itself is that of the model `histogram` with `by_usage`: this is only read into its options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.model.errors import InvalidInput
from slackwater.peaks.buckets import Buckets, ExponentialBuckets, LinearBuckets
from slackwater.peaks.decaying_histograms import DecayingOptions

_MICRO = "\u00b5s", "\u03bcs"
"""The micro sign, and the Greek letter that looks like it."""
_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    **dict.fromkeys(_MICRO, 1e-6),
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE)
_MOST_BUCKETS = 100_000
_MOST_FACTOR = 1e9
_SHOWN = 40
_LONGEST = 2.0**63 / 1e9
"""Seconds of the longest duration that peers can hold: nanoseconds in 64 bits."""
_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h|d)", re.ASCII)


@dataclass(frozen=True)
class EstimateSettings:
    """Ratios, weights and layout of one estimate. Raises InvalidInput that names the field."""

    percentile: float = 0.99
    margin: float = 0.0
    target_utilization: float = 1.0
    min_sample_weight: float = 1e-5
    buckets: Buckets = field(default_factory=lambda: LinearBuckets(0.1, 100.0))
    epsilon: float = 1e-10
    half_life_seconds: float = math.inf
    sample_interval_seconds: float = 60.0

    @property
    def factor(self) -> float:
        """By which a percentile is multiplied."""
        return (1 + self.margin) / self.target_utilization if self.target_utilization > 0 else math.inf

    @property
    def options(self) -> DecayingOptions:
        """As the model takes them: margin and target utilization are one factor."""
        return DecayingOptions(
            percentile=self.percentile,
            margin=self.factor - 1,
            half_life_seconds=self.half_life_seconds,
            warm_seconds=0.0,
            by_usage=True,
            least_weight=self.min_sample_weight,
            epsilon=self.epsilon,
        )

    def __post_init__(self) -> None:
        ranges = {
            "percentile": 0 <= self.percentile <= 1,
            "margin": -1 < self.margin < math.inf,
            "target_utilization": 0 < self.target_utilization < math.inf,
            "margin and target_utilization": self.factor <= _MOST_FACTOR,
            "min_sample_weight": 0 <= self.min_sample_weight < math.inf,
            "epsilon": 0 < self.epsilon < math.inf,
            "half_life_seconds": self.half_life_seconds > 0,
            "sample_interval_seconds": 0 < self.sample_interval_seconds < math.inf,
        }
        for name, is_allowed in ranges.items():
            if not is_allowed:
                told = getattr(self, name, self.factor)
                raise InvalidInput(f"estimate: {name} is {told}, which is out of range", field=name)


def settings_of(texts: Mapping[str, str]) -> EstimateSettings:
    """From the field's names and texts; empty or missing ones have their default. Raises InvalidInput.

    `growth` is by how much a bucket is wider than the one before: 0.05 is a factor of 1.05.
    """
    plain = EstimateSettings()
    half_life, interval = texts.get("halfLife"), texts.get("sampleInterval")
    return EstimateSettings(
        percentile=number_of(texts, "percentile", plain.percentile),
        margin=number_of(texts, "marginFraction", plain.margin),
        target_utilization=number_of(texts, "targetUtilization", plain.target_utilization),
        min_sample_weight=number_of(texts, "minSampleWeight", plain.min_sample_weight),
        buckets=_buckets_of(texts, plain.buckets),
        epsilon=number_of(texts, "epsilon", plain.epsilon),
        half_life_seconds=seconds_of(half_life, "halfLife") if half_life else plain.half_life_seconds,
        sample_interval_seconds=seconds_of(interval, "sampleInterval") if interval else plain.sample_interval_seconds,
    )


def number_of(texts: Mapping[str, str], name: str, default: float) -> float:
    """A number by name, `default` where the text is empty or missing. Raises InvalidInput that names it."""
    text = texts.get(name, "")
    if not text:
        return default
    if not _NUMBER.fullmatch(text):
        raise InvalidInput(f"{name}: {text[:_SHOWN]!r} is not a number like 0.95", field=name)
    return float(text)


def seconds_of(text: str, name: str) -> float:
    """`90s`, `1h30m`, `-1.5h`, `1d`: one sign, and no spaces. Raises InvalidInput that names the field."""
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    spans = _SPAN.findall(rest)
    if not spans or "".join(amount + unit for amount, unit in spans) != rest:
        raise InvalidInput(f"{name}: {text[:_SHOWN]!r} is not a duration like 90s, 1h30m or 1d", field=name)
    seconds = sum(float(amount) * _UNITS[unit] for amount, unit in spans)
    if seconds >= _LONGEST:
        raise InvalidInput(f"{name}: {text[:_SHOWN]!r} is longer than 292 years", field=name)
    return sign * seconds


def _buckets_of(texts: Mapping[str, str], default: Buckets) -> Buckets:
    """Exponential if growth, first size and maximum are named, linear if size and maximum are."""
    growth, first, maximum = texts.get("growth"), texts.get("firstBucketSize"), texts.get("maxValue")
    if growth and first and maximum:
        factor = 1.0 + number_of(texts, "growth", 0.0)
        narrow, most = number_of(texts, "firstBucketSize", 0.0), number_of(texts, "maxValue", 0.0)
        is_finite = 0 < narrow < math.inf and 0 < most < math.inf and 1 < factor < math.inf
        spans = math.log1p(most / narrow * (factor - 1)) if is_finite else 0.0
        _refuse_many(is_finite and spans > _MOST_BUCKETS * math.log(factor))
        return ExponentialBuckets(first=narrow, maximum=most, growth=factor)
    if texts.get("bucketSize") and maximum:
        narrow, most = number_of(texts, "bucketSize", 0.0), number_of(texts, "maxValue", 0.0)
        _refuse_many(narrow > 0 and most / narrow > _MOST_BUCKETS)
        return LinearBuckets(size=narrow, maximum=most)
    return default


def _refuse_many(is_many: bool) -> None:
    if is_many:
        raise InvalidInput(f"buckets: more than {_MOST_BUCKETS} is out of range", field="maxValue")
