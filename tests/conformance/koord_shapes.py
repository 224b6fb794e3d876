"""What cases of koord_colocation.json look like; fields have the names of the vectors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field
from shapes import Age, Amount, Real, Seconds, Shape, Text, Whole, answers_as, read_as
from verdicts import Adaptor

# ---- nodes, pods and offers


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


# ---- histograms


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
    """What is no number is for the reader of checkpoints to refuse: a peer's case may ask for that."""

    totalWeight: Any = None
    bucketWeights: Any = {}
    referenceTimestamp: Any = None


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
