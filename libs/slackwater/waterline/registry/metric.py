"""The declaration of a metric, with everything that planner, sorter and executor need.

The rest of the package names no metric: a declared metric works like a built-in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType

from slackwater.model.errors import InvalidInput
from slackwater.waterline.actuation.cpu_quota import QuotaChange, RestoreBounds, ThrottleBounds
from slackwater.waterline.facts.amounts import ZERO, Number
from slackwater.waterline.facts.eviction_marks import refusal
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import GENERAL, ComparatorChain


class MetricFailed(Exception):
    """The readings of an external metric failed; the text says why."""


class Dimension(StrEnum):
    """The dimension of a reading and its waterline: one unit each."""

    CPU = "milli-cores"
    MEMORY = "bytes"
    RATIO = "ratio"
    NUMBER = "number"
    BYTES_PER_SECOND = "bytes/s"


class MetricResource(StrEnum):
    """The resource of a gap and its release. `OTHER` is known only to the metric itself."""

    CPU = "cpu"
    MEMORY = "memory"
    BATCH_CPU_REQUEST = "batch-cpu-request"
    BATCH_MEMORY_REQUEST = "batch-memory-request"
    MID_CPU_REQUEST = "mid-cpu-request"
    MID_MEMORY_REQUEST = "mid-memory-request"
    OTHER = "other"


Readings = Callable[[NodeReadings], tuple[MetricSeries, ...]]
Release = Callable[[NodeReadings, Decimal, Decimal], Decimal | None]
Throttle = Callable[[PodUse, ThrottleBounds, Decimal | None], tuple[QuotaChange, ...]]
Restore = Callable[[PodUse, RestoreBounds, Decimal | None], tuple[QuotaChange, ...]]
Evict = Callable[[PodUse], Decimal | None]
Basis = Callable[[NodeReadings], tuple["Fact", ...]]
RuleCheck = Callable[[Decimal, Decimal | None], str | None]


@dataclass(frozen=True, slots=True)
class Fact:
    """An input of a formula beside reading and target, under its name in the formula."""

    name: str
    value: Number | None
    unit: str


def _nothing_else(_view: NodeReadings) -> tuple[Fact, ...]:
    return ()


def difference(_view: NodeReadings, reading: Decimal, target: Decimal) -> Decimal | None:
    """Returns reading - target, for metrics whose reading is in the unit of their release."""
    return reading - target


def _any_rule(_value: Decimal, _target: Decimal | None) -> str | None:
    return None


def _itself(value: Decimal) -> Decimal:
    return value


def _everybody(_pod: PodUse) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class MemoryThrottling:
    """How the rules of a metric throttle memory.

    need          (view, reading, target, horizon in seconds) -> bytes to release; without it (or None) a small step
    formula       `need` in words
    is_bounded    `need` is an estimate, so it is bounded by what the candidates can release
    has_headroom  bytes below the waterline bound a restore
    """

    need: Callable[[NodeReadings, Decimal, Decimal, Decimal], Decimal | None] | None = None
    formula: str = ""
    is_bounded: bool = False
    has_headroom: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    action_priority      0-10: of two triggered metrics, the higher is handled first
    readings             its series on a node; none = unknown. By default those read under its name
    reached_counts       a reading exactly at the waterline is already above it
    release              (view, reading, target): the amount to release, in the unit of `resource`, None = unknown
    formula, basis       `release` in words, and its inputs beside reading and target: for checking it by hand
    sort                 the order of candidates; without one (not sortable) the general order
    throttle, restore    the action on one pod; without them the metric is not throttleable. Of several metrics that
                         throttle a pod, that of the highest action priority restores its limits
    throttle_quantified  the release of a throttle is known, so it goes exactly as far as the gap
    evict                what the end of one pod releases, in the unit of `resource`; None = unknown for this pod
    evictable, evict_quantified  the same for eviction
    reads_pods           its readings depend on the pods, not on the view's readings alone
    refilled             the other candidates may take CPU that one leaves, so their unmet demand within their limits
                         must be released in addition
    concerns             pods whose usage is in the reading: only they are candidates, and only they are credited
    check                (value, target) of a rule: the error, or None
    target_of            the target of a rule without one; by default its waterline
    largest              maximum of a ratio
    also_called          by peers: a pod's eviction policy may name any of them
    memory               how its rules throttle memory; None: they do not
    left_to_weights      CPU weights of tiers lower it by themselves: throttles wait for a long crossing
                         (slackwater.waterline.loop.weights_first)
    """

    name: str
    dimension: Dimension
    resource: MetricResource = MetricResource.OTHER
    action_priority: int = 5
    readings: Readings | None = None
    reached_counts: bool = False
    release: Release = difference
    formula: str = "reading - target"
    basis: Basis = _nothing_else
    sort: ComparatorChain | None = None
    throttle: Throttle | None = None
    restore: Restore | None = None
    throttle_quantified: bool = False
    evictable: bool = False
    evict: Evict | None = None
    evict_quantified: bool = False
    reads_pods: bool = True
    refilled: bool = False
    concerns: Callable[[PodUse], bool] = _everybody
    check: RuleCheck = _any_rule
    target_of: Callable[[Decimal], Decimal] = _itself
    largest: Decimal = Decimal(1)
    also_called: frozenset[str] = frozenset()
    memory: MemoryThrottling | None = None
    left_to_weights: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.action_priority <= 10:
            raise InvalidInput(
                f"metric {self.name}: action_priority is {self.action_priority}; allowed: 0 to 10",
                field="action_priority",
            )
        if (self.throttle is None) != (self.restore is None):
            raise InvalidInput(
                f"metric {self.name}: throttle and restore come together; give both or neither", field="restore"
            )
        if self.throttle_quantified and self.throttle is None:
            raise InvalidInput(
                f"metric {self.name}: throttle_quantified needs a throttle function", field="throttle_quantified"
            )
        if self.evict_quantified and (self.evict is None or not self.evictable):
            raise InvalidInput(
                f"metric {self.name}: evict_quantified needs evictable and an evict function", field="evict_quantified"
            )

    @property
    def needs_pods(self) -> bool:
        """Returns whether its reading needs the view's pods."""
        return self.readings is not None and self.reads_pods

    @property
    def sortable(self) -> bool:
        return self.sort is not None

    @property
    def throttleable(self) -> bool:
        return self.throttle is not None

    @property
    def chain(self) -> ComparatorChain:
        return self.sort or GENERAL

    def read(self, view: NodeReadings) -> tuple[MetricSeries, ...]:
        """Returns the series. Raises MetricFailed for an external metric
        (slackwater.waterline.registry.plugin_sandbox).
        """
        return view.readings.get(self.name, ()) if self.readings is None else self.readings(view)

    def is_above(self, reading: Decimal, waterline: Decimal) -> bool:
        return reading > waterline or (self.reached_counts and reading == waterline)

    def refused_by(self, pod: PodUse) -> str | None:
        """Returns why a pod refuses eviction for this metric, or None."""
        if pod.eviction_enabled is not False and pod.eviction_policies is None:
            return None
        return refusal(pod.eviction_enabled, pod.eviction_policies, self.also_called | {self.name})

    def released_by_throttle(self, pod: PodUse, milli: Decimal) -> Decimal:
        """Returns the effect of `milli` taken from a pod on this metric's gap."""
        return milli if self.resource is MetricResource.CPU and self.concerns(pod) else ZERO

    def released_by_memory(self, pod: PodUse, amount_bytes: Decimal) -> Decimal:
        """Returns the effect of memory taken from a pod on this metric's gap."""
        return amount_bytes if self.resource is MetricResource.MEMORY and self.concerns(pod) else ZERO

    def released_by_eviction(self, pod: PodUse) -> Decimal:
        """Returns the effect of a pod's end on this metric's gap; 0 if unknown."""
        if self.evict is None or not self.concerns(pod):
            return ZERO
        amount = self.evict(pod)
        return amount if amount is not None and amount > 0 else ZERO


@dataclass(frozen=True, slots=True)
class Metrics:
    """The registered metrics, by name. Immutable: `with_metrics` returns a new one."""

    by_name: Mapping[str, Metric]

    @staticmethod
    def of(*metrics: Metric) -> Metrics:
        return Metrics(MappingProxyType({})).with_metrics(*metrics)

    def get(self, name: str) -> Metric | None:
        return self.by_name.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.by_name))

    def with_metrics(self, *metrics: Metric) -> Metrics:
        """Returns these and `metrics`. Raises InvalidInput if a name is taken."""
        known = dict(self.by_name)
        for metric in metrics:
            if metric.name in known:
                raise InvalidInput(f"metric {metric.name} is declared twice; choose another name", field="name")
            known[metric.name] = metric
        return Metrics(MappingProxyType(known))

    def __iter__(self) -> Iterator[Metric]:
        return iter(self.by_name.values())
