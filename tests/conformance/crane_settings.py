"""How a peer's configuration of a percentile is written: texts, and what they may be.

The percentile itself is that of the model `histogram` with `by_usage`: this is only read into its options.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.buckets import Buckets, ExponentialBuckets, LinearBuckets
from slackwater.prediction.domain.models.decaying import DecayingOptions

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d)")


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
    def options(self) -> DecayingOptions:
        """As the model takes them: margin and target utilization are one factor."""
        return DecayingOptions(
            percentile=self.percentile,
            margin=(1 + self.margin) / self.target_utilization - 1,
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
            "min_sample_weight": 0 <= self.min_sample_weight < math.inf,
            "epsilon": 0 < self.epsilon < math.inf,
            "half_life_seconds": self.half_life_seconds > 0,
            "sample_interval_seconds": 0 < self.sample_interval_seconds < math.inf,
        }
        for name, is_allowed in ranges.items():
            if not is_allowed:
                raise InvalidInput(f"estimate: {name} is {getattr(self, name)}, which is out of range", field=name)


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
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{name}: {text!r} is not a number like 0.95", field=name) from None


def seconds_of(text: str, name: str) -> float:
    """`90s`, `1h30m`, `1d`. Raises InvalidInput that names the field."""
    stripped = text.strip()
    sign = -1.0 if stripped.startswith("-") else 1.0
    rest = stripped.lstrip("+-")
    if rest == "0":
        return 0.0
    spans = _SPAN.findall(rest)
    if not spans or "".join(amount + unit for amount, unit in spans) != rest:
        raise InvalidInput(f"{name}: {text!r} is not a duration like 90s, 1h30m or 1d", field=name)
    return sign * sum(float(amount) * _UNITS[unit] for amount, unit in spans)


def _buckets_of(texts: Mapping[str, str], default: Buckets) -> Buckets:
    """Exponential if growth, first size and maximum are named, linear if size and maximum are."""
    growth, first, maximum = texts.get("growth"), texts.get("firstBucketSize"), texts.get("maxValue")
    if growth and first and maximum:
        return ExponentialBuckets(
            first=number_of(texts, "firstBucketSize", 0.0),
            maximum=number_of(texts, "maxValue", 0.0),
            growth=1.0 + number_of(texts, "growth", 0.0),
        )
    if texts.get("bucketSize") and maximum:
        return LinearBuckets(size=number_of(texts, "bucketSize", 0.0), maximum=number_of(texts, "maxValue", 0.0))
    return default
