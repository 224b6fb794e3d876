"""What cases of crane.json look like; fields have the names of the vectors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from shapes import Age, Amount, Measured, Moment, Percent, Real, Shape, Text, Whole

# ---- rules, pods and whole passes

Labels = dict[str, Text]
Level = Annotated[Text, BeforeValidator(lambda value: str(value) if type(value) in (int, float) else value)]


class CountersCase(Shape):
    avoidanceThreshold: Whole
    restoreThreshold: Whole
    watermark: Level
    samples: list[Real | None]


class CountersAnswer(Shape):
    triggered: list[bool] = []
    restored: list[bool] = []


class WrittenMetricRule(Shape):
    name: Text = ""
    value: Level = ""


class WrittenRule(Shape):
    name: Text = ""
    actionName: Text = ""
    avoidanceThreshold: Whole = 1
    restoreThreshold: Whole = 1
    metricRule: WrittenMetricRule = WrittenMetricRule()


class RulesCase(Shape):
    rules: list[WrittenRule] = []


class RulesAnswer(Shape):
    error: bool
    first_error_type: Text = ""


class Percentile(Shape):
    config: dict[str, Level | bool] = {}
    samples: list[Real | None] = []
    sample_step_s: Age = 60.0


class PercentileAnswer(Shape):
    estimate: Real = 0.0
    num_buckets: Whole = 0
    window_seconds: Real = 0.0
    error: bool = False


class Duration(Shape):
    s: Text = ""


class DurationAnswer(Shape):
    error: bool = False
    seconds: Real = 0.0


class ContainerUse(Shape):
    name: Text
    usage: Measured = 0.0
    quota: Whole = -1
    period: Annotated[Whole, Field(ge=1000, le=10**9)] = 100_000
    requestMilli: Measured = 0.0
    limitMilli: Measured = 0.0
    extMilli: Measured = 0.0
    noQuota: bool = False
    missing: bool = False
    fail: bool = False


class UsedPod(Shape):
    name: Text
    ns: Text = "default"
    qos: Literal["BestEffort", "Burstable", "Guaranteed", ""] = ""
    priority: Whole = 0
    start: Moment = 0.0
    labels: Labels = {}
    cpu: Measured = 0.0
    mem: Measured = 0.0
    elasticCpuLimit: Measured = 0.0
    elasticMemLimit: Measured = 0.0
    step: Percent = 0.0
    min: Percent = 0.0
    containers: list[ContainerUse] = []
    evictFails: bool = False
    notInLister: bool = False


class LabelledSample(Shape):
    value: Measured
    labels: Labels = {}


class ExecutorRun(Shape):
    pods: list[UsedPod] = []
    state: dict[str, Measured | list[LabelledSample]] = {}
    excess: Annotated[Real, Field(ge=0, le=1000)] = 0.0
    evict: dict[str, list[Level]] = {}
    down: dict[str, list[Level]] = {}
    up: dict[str, list[Level]] = {}


Gap = Real | Literal["MISSING"]
"""MISSING: the metric has no sample, so that its gap is unknown."""


class RunAnswer(Shape):
    evict_calls: list[Text] = []
    quota_writes: list[tuple[Text, Whole]] = []
    gaps_after: dict[str, Gap] = {}
    gap_after: Gap = 0.0
    panic: Text = ""


# ---- series with periods

_MOST_SAMPLES = 1_000_000
Series = Annotated[list[Real], Field(max_length=_MOST_SAMPLES)] | Text
Count = Annotated[Whole, Field(ge=0, le=_MOST_SAMPLES)]
Interval = Annotated[Whole, Field(ge=1, le=86_400)]


_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
"""What a peer samples by, keeps whole of, and looks for, where a case leaves it out."""


class Signal(Shape):
    signal: Series = ""
    samples: Series = ""
    interval_s: Interval | None = None


class Truncated(Shape):
    n: Count = 0
    interval_s: Interval = _MINUTE
    unit_minutes: Annotated[Whole, Field(ge=1, le=10**6)] = _DAY // 60


class Peak(Shape):
    x: Annotated[list[Real], Field(max_length=_MOST_SAMPLES)] = []
    i: Amount = 0
    k: Annotated[Whole, Field(ge=0, le=_MOST_SAMPLES)] = 0


class Gaps(Shape):
    ts: Annotated[list[Amount], Field(max_length=_MOST_SAMPLES)] | Text = []
    v: list[Real] = []
    interval_s: Interval = _MINUTE
    unit_s: Annotated[Whole, Field(ge=1, le=10**8)] = _HOUR


class Outliers(Shape):
    samples: Series = []
    n: list[Count] = []


class Spectrum(Shape):
    minNumOfSpectrumItems: Count = 3
    maxNumOfSpectrumItems: Count = 100
    highFrequencyThreshold: Real = 1 / 3600
    lowAmplitudeThreshold: Real = 1.0
    marginFraction: Annotated[Real, Field(ge=-1, le=1e6)] = 0.0


class Estimate(Shape):
    samples: Series = []
    interval_s: Interval = _MINUTE
    period_s: Annotated[Whole, Field(ge=1, le=10**8)] = _DAY
    params: Spectrum = Spectrum()
    estimators: list[dict[str, Any]] = []


class Errors(Shape):
    actual: Series = []
    predicted: Series = []
