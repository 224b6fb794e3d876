"""What a case of a family must look like: pydantic models, so that any other JSON fails with the field's name.

A field that is null is one that is left out: peers leave out what has no value. Fields beyond the model are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from verdicts import Adaptor, Case, Verdict, wanted

_LATEST = 253_402_300_799
"""The end of the year 9999: later moments cannot be written."""
_SHOWN = 3


def _no_other_type(value: Any) -> Any:
    """Texts and booleans are not numbers, whatever they could be read as."""
    if isinstance(value, str | bool):
        raise ValueError(f"a number is expected, not {value!r:.40}")
    return value


Whole = Annotated[int, BeforeValidator(_no_other_type)]
Amount = Annotated[int, BeforeValidator(_no_other_type), Field(ge=-(2**63), lt=2**63)]
"""Milli-cores, bytes or percent: what a 64-bit integer holds."""
Real = Annotated[int | float, BeforeValidator(_no_other_type), Field(ge=-1e30, le=1e30)]
Moment = Annotated[float, BeforeValidator(_no_other_type), Field(allow_inf_nan=False, ge=0, le=_LATEST)]
Seconds = Annotated[float, BeforeValidator(_no_other_type), Field(allow_inf_nan=False, ge=0, le=_LATEST // 4)]
"""Since 1970, or since the base of a case: two of them and a half-life are still a moment that can be written."""
Age = Annotated[float, BeforeValidator(_no_other_type), Field(allow_inf_nan=False, ge=0, le=10**11)]
"""Seconds."""
Measured = Annotated[int | float, BeforeValidator(_no_other_type), Field(ge=0, le=1e18)]
"""What is used or granted: never below nothing."""
Percent = Annotated[int | float, BeforeValidator(_no_other_type), Field(ge=0, le=100)]
Text = Annotated[str, Field(max_length=10_000)]


class Shape(BaseModel):
    """Base: unknown fields are ignored, numbers are finite."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


def read_as(shape: Any, adaptor: Adaptor, *, may_be_left_out: bool = False) -> Adaptor:
    """The adaptor for cases whose `in` has this shape; any other one fails with the place and what is expected.

    `may_be_left_out`: a case that asks for what the vectors do not hold is not covered, and told as such."""
    reader: TypeAdapter[Any] = TypeAdapter(shape)

    def judge_shaped(case: Case) -> Verdict:
        try:
            given = reader.validate_python(without_nulls(case.get("in")))
        except ValidationError as error:
            return Verdict("FAIL", f"this case cannot be read: {said(error)}")
        plain = given.model_dump(exclude_unset=True) if isinstance(given, BaseModel) else given
        verdict = adaptor({**case, "in": plain})
        if verdict.word == "not covered" and not may_be_left_out:
            return Verdict("FAIL", f"this case asks for something that is not known: {verdict.why}")
        return verdict

    return judge_shaped


def answers_as(shape: Any, adaptor: Adaptor) -> Adaptor:
    """The adaptor for cases whose wanted answers (`want`, `out`, `expect` and `correct`) have this shape. A sentence
    that says what is correct is no answer: the peer's is asked for then."""
    reader: TypeAdapter[Any] = TypeAdapter(shape)

    def judge_shaped(case: Case) -> Verdict:
        if isinstance(case.get("correct"), str):
            case = {name: value for name, value in case.items() if name != "correct"}
        names = [name for name in ("want", "out", "expect") if name in case][:1]
        if not names:
            return Verdict("FAIL", "this case cannot be read: it has no answer (want, out or expect)")
        answers = {names[0]: case[names[0]], "correct": wanted(case)}
        for name, answer in answers.items():
            try:
                reader.validate_python(answer)
            except ValidationError as error:
                return Verdict("FAIL", f"this case cannot be read: {name}.{said(error)}")
        return adaptor(case)

    return judge_shaped


def said(error: ValidationError) -> str:
    """The first few fields that are wrong, and what each must be."""
    wrong = error.errors(include_url=False, include_context=False)
    parts = [f"{'.'.join(map(str, one['loc'])) or 'in'}: {one['msg']}" for one in wrong[:_SHOWN]]
    return "; ".join(parts) + (f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else "")


def without_nulls(value: Any) -> Any:
    """The same without the fields of objects that are null; entries of lists stay."""
    if isinstance(value, Mapping):
        return {str(key): without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


# ---- koordinator: nodes, pods and offers


class Pair(Shape):
    """Milli-cores and bytes."""

    cpu: Amount = 0
    mem: Amount = 0


class Reservation(Shape):
    resources: Pair = Pair()
    reservedCPUs: Text = ""


class Node(Shape):
    capacity: Pair
    allocatable: Pair = Pair()
    rawAllocatable: Pair = Pair()
    annoReservation: Reservation = Reservation()


class ListedPod(Shape):
    name: Text
    qos: Text = ""
    tier: Text = ""
    phase: Text = "Running"
    req: Pair = Pair()
    numa: list[Whole] = []


class MeasuredPod(Shape):
    name: Text
    usage: Pair = Pair()
    tier: Text = ""
    qos: Text = ""


class HostApplication(Shape):
    name: Text = ""
    tier: Text = ""
    usage: Pair = Pair()


class Metrics(Shape):
    ageSeconds: Real = 0.0
    nodeUsage: Pair = Pair()
    systemUsage: Pair = Pair()
    prodReclaimable: Pair = Pair()
    pods: list[MeasuredPod] = []
    hostApps: list[HostApplication] = []


class ColocationStrategy(Shape):
    degradeTimeMinutes: Amount = 15
    cpuReclaimThresholdPercent: Amount = 60
    memoryReclaimThresholdPercent: Amount = 65
    cpuCalculatePolicy: Text = ""
    memoryCalculatePolicy: Text = ""
    batchCPUThresholdPercent: Amount = 0
    batchMemoryThresholdPercent: Amount = 0
    midReclaimMode: Text = ""
    midCPUThresholdPercent: Amount = 100
    midMemoryThresholdPercent: Amount = 100
    midUnallocatedPercent: Amount = 0
    midStaticCPUReservedPercent: Amount = 0
    midStaticMemoryReservedPercent: Amount = 0


class NumaZone(Pair):
    name: Text


class Offer(Shape):
    """A node to compute offers for. Without node or strategy it is a call without arguments."""

    strategy: ColocationStrategy = ColocationStrategy()
    node: Node = Node(capacity=Pair())
    metrics: Metrics = Metrics()
    pods: list[ListedPod] = []
    zones: list[NumaZone] = []


class Extended(Shape):
    batchCpu: Amount = 0
    batchMem: Amount = 0
    midCpu: Amount = 0
    midMem: Amount = 0


class SyncGate(Shape):
    secondsSinceLastSync: Age = 0.0
    updateTimeThresholdSeconds: Age = 300.0
    resourceDiffThreshold: Annotated[Real, Field(ge=0)] = 0.1
    old: Extended = Extended()
    new: Extended = Extended()
    metaLabelChanged: bool = False


Reset = Literal["reset"]


class Refusal(Shape):
    error: Literal[True]


class BatchAnswer(Shape):
    model_config = ConfigDict(extra="forbid")

    batchCpu: Amount
    batchMem: Amount
    zones: dict[str, Extended] = {}


class OffersAnswer(Shape):
    model_config = ConfigDict(extra="forbid")

    batchCpu: Amount | None = None
    batchMem: Amount | None = None
    midCpu: Amount | None = None
    midMem: Amount | None = None


class SyncAnswer(Shape):
    model_config = ConfigDict(extra="forbid")

    status: bool
    meta: bool = False


def offer_case(adaptor: Adaptor, answer: Any) -> Adaptor:
    return answers_as(Reset | Refusal | answer, read_as(Offer | None, adaptor))


# ---- koordinator: histograms


def _layout(value: Any) -> Any:
    """One of so many buckets that a row of them fits into memory; what the domain refuses stays for it to refuse."""
    if isinstance(value, Layout):
        needed = {"bucketSize"} if value.type == "linear" else {"firstBucketSize", "ratio"}
        if missing := needed - value.model_fields_set:
            raise ValueError(f"{', '.join(sorted(missing))} is missing for {value.type} buckets")
        narrow, growth = value.bucketSize, value.ratio
        if value.type == "exponential":
            narrow = value.firstBucketSize
            if 1 < growth < 1 + _LEAST_GROWTH:
                raise ValueError(f"ratio {growth} makes too many buckets")
        if value.type == "linear" and narrow > 0 and value.max / narrow > _MOST_BUCKETS:
            raise ValueError(f"{value.max} in parts of {narrow} are more than {_MOST_BUCKETS} buckets")
    return value


_MOST_BUCKETS, _LEAST_GROWTH, _LEAST_HALF_LIFE = 100_000, 1e-3, 1e-3


class Layout(Shape):
    type: Literal["linear", "exponential"]
    max: Real
    bucketSize: Real = 1.0
    firstBucketSize: Real = 1.0
    ratio: Real = 1.05
    epsilon: Real = 1e-4


def _half_life(value: float) -> float:
    """What is not above 0 is for the domain to refuse."""
    if 0 < value < _LEAST_HALF_LIFE:
        raise ValueError(f"{value} s are less than a millisecond")
    return value


Weighted = tuple[Real, Annotated[Real, Field(ge=0)]] | tuple[Real, Annotated[Real, Field(ge=0)], Seconds] | tuple[Real]
Operation = tuple[Literal["add", "sub"], Real, Real] | tuple[Literal["isEmpty"], bool]


class KeptHistogram(Shape):
    totalWeight: Real
    bucketWeights: dict[str, Whole] = {}
    referenceTimestamp: Text = ""


class History(Shape):
    options: Annotated[Layout | Literal["cpuOptions", "memOptions"], AfterValidator(_layout)]
    halfLifeSeconds: Annotated[Real, AfterValidator(_half_life)] = 3600.0
    baseUnix: Seconds = 0.0
    samples: list[Weighted] = []
    ops: list[Operation] = []
    a: list[Weighted] = []
    b: list[Weighted] = []
    load: KeptHistogram = KeptHistogram(totalWeight=0.0)


class HistoryAnswer(Shape):
    percentiles: list[tuple[Real, Real]] = []
    percentilesAfterCheckpointRoundTrip: list[tuple[Real, Real]] = []
    checkpoint: dict[str, Any] = {}
    bucketWeight: dict[str, Real] = {}
    bucketWeights: dict[str, Real] = {}
    equalsSamples: list[Weighted] = []
    isEmpty: bool = False


# ---- crane: rules, pods and whole passes

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
    config: dict[str, Level] = {}
    samples: list[Real] = []
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


class RunAnswer(Shape):
    evict_calls: list[Text] = []
    quota_writes: list[tuple[Text, Whole]] = []
    gaps_after: dict[str, Real] = {}
    gap_after: Real = 0.0
    panic: Text = ""


# ---- crane: series with periods

_MOST_SAMPLES = 1_000_000
Series = Annotated[list[Real], Field(max_length=_MOST_SAMPLES)] | Text
Count = Annotated[Whole, Field(ge=0, le=_MOST_SAMPLES)]
Interval = Annotated[Whole, Field(ge=1, le=86_400)]


class Signal(Shape):
    signal: Series = ""
    samples: Series = ""


class Truncated(Shape):
    n: Count
    interval_s: Interval
    unit_minutes: Annotated[Whole, Field(ge=1, le=10**6)]


class Peak(Shape):
    x: Annotated[list[Real], Field(min_length=1, max_length=_MOST_SAMPLES)]
    i: Amount
    k: Annotated[Whole, Field(ge=0, le=_MOST_SAMPLES)]


class Gaps(Shape):
    ts: Annotated[list[Amount], Field(max_length=_MOST_SAMPLES)] | Text
    v: list[Real] = []
    interval_s: Interval
    unit_s: Annotated[Whole, Field(ge=1, le=10**8)]


class Outliers(Shape):
    samples: Series
    n: list[Count] = []


class Spectrum(Shape):
    minNumOfSpectrumItems: Count = 3
    maxNumOfSpectrumItems: Annotated[Count, Field(ge=1)] = 100
    highFrequencyThreshold: Real = 1 / 3600
    lowAmplitudeThreshold: Real = 1.0
    marginFraction: Annotated[Real, Field(ge=-1, le=1e6)] = 0.0


class Estimate(Shape):
    samples: Series
    interval_s: Interval
    period_s: Annotated[Whole, Field(ge=1, le=10**8)]
    params: Spectrum = Spectrum()
    estimators: list[dict[str, Any]] = []


class Errors(Shape):
    actual: Series
    predicted: Series
