"""Metrics that evict batch pods: CPU satisfaction, memory and CPU thresholds, and overcommitted
offers.

They are ordinary metrics. Each is released down to its own target below the waterline; threshold
percentages are truncated to whole ones, as in the field.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.facts.amounts import ZERO, Number, exact
from slackwater.waterline.facts.node import BestEffortCpu, MetricSeries, NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import BEST_EFFORT_CPU, BEST_EFFORT_MEMORY
from slackwater.waterline.registry.metric import Dimension, Evict, Fact, Metric, MetricResource

USAGE_GATE: Final = Decimal("0.9")
"""Pods that use less than this share of what they may use lack no CPU, however small their share
is.
"""
WHOLE_CORE_MILLI: Final = 1000
"""Below one core the usage is inconclusive: the gate is open."""
DEFAULT_BELOW: Final = Decimal("0.02")
"""A threshold without a target is released two percent below itself."""
PROMISED_IN_VAIN: Final = Decimal(1000)
"""Reading if resources are requested but none are offered: finite, because readings travel as
JSON.
"""
LEAST_COVERED: Final = Decimal(1) / 3
"""A window needs samples for at least this share of it."""


def is_best_effort(pod: PodUse) -> bool:
    return pod.qos is QoSClass.BE


def is_gate_open(limit: Decimal, usage: Decimal, gate: Decimal) -> bool:
    """Returns whether BE pods use so much of what they may use that they can lack CPU."""
    if limit <= 0:
        return False
    return limit < WHOLE_CORE_MILLI or usage / limit >= gate


def _limit_of(seen: BestEffortCpu, by_allocatable: bool) -> Decimal:
    if not by_allocatable:
        return exact(seen.limit_milli)
    if seen.allocatable_milli is None or seen.allocatable_milli < 0:
        return Decimal(-1)
    return max(exact(seen.allocatable_milli), Decimal(1))


def _shortfall(seen: BestEffortCpu, gate: Decimal, by_allocatable: bool) -> Decimal:
    """Returns 1 - limit / request: the share of their requests that BE pods do not get. 0 while
    they lack nothing.
    """
    limit, request = _limit_of(seen, by_allocatable), exact(seen.request_milli)
    if request <= 0 or not is_gate_open(limit, exact(seen.usage_milli), gate):
        return ZERO
    return max(ZERO, 1 - limit / request)


def satisfaction(name: str, *, gate: Decimal = USAGE_GATE, by_allocatable: bool = False) -> Metric:
    """Returns the metric of the shortfall of BE CPU, the smaller of window and last sample. A
    rule's value is 1 - lower bound of satisfaction, its target 1 - upper bound.
    """

    def seen(view: NodeReadings) -> tuple[BestEffortCpu, ...]:
        window, last = view.best_effort_window, view.best_effort_last
        if window is None or last is None or exact(window.covered_ratio) < LEAST_COVERED:
            return ()
        if by_allocatable and (window.allocatable_milli is None or last.allocatable_milli is None):
            return ()  # what is not said is not known: that is no calm
        return window, last

    def readings(view: NodeReadings) -> tuple[MetricSeries, ...]:
        shortfalls = [_shortfall(one, gate, by_allocatable) for one in seen(view)]
        return (MetricSeries(min(shortfalls)),) if shortfalls else ()

    def release(view: NodeReadings, _reading: Decimal, target: Decimal) -> Decimal | None:
        """Returns the smaller release of window and last sample, in milli-cores of requests,
        truncated.
        """
        amounts = [(_shortfall(one, gate, by_allocatable) - target) * exact(one.request_milli) for one in seen(view)]
        return Decimal(int(min(amounts))) if amounts else None

    def basis(view: NodeReadings) -> tuple[Fact, ...]:
        found = []
        for when, one in zip(("window", "last"), seen(view), strict=False):
            limit = None if (known := _limit_of(one, by_allocatable)) < 0 else known
            found += [
                Fact(f"requested_{when}", one.request_milli, Dimension.CPU),
                Fact(f"may_use_{when}", limit, Dimension.CPU),
            ]
        return tuple(found)

    return Metric(
        name,
        Dimension.RATIO,
        MetricResource.BATCH_CPU_REQUEST,
        action_priority=4,
        readings=readings,
        reached_counts=True,
        release=release,
        formula="(1 - may_use / requested - target) x requested, the smaller of window and last",
        basis=basis,
        sort=BEST_EFFORT_CPU,
        evictable=True,
        evict=batch_cpu_request,
        evict_quantified=True,
        concerns=is_best_effort,
        check=check_satisfaction,
        also_called=frozenset({"BECPUEvict"}),
    )


def check_satisfaction(value: Decimal, target: Decimal | None) -> str | None:
    """Checks a rule: a shortfall triggers at 0.4 or more (60 % satisfied or less); its target is
    above 0 and at most the value.
    """
    if target is None:
        return "needs a target: the shortfall that is tolerated"
    if not Decimal("0.4") <= value < 1:
        return f"value {value} must be at least 0.4 and below 1 (a satisfaction above 0 and at most 0.6)"
    if not 0 < target < 1:
        return f"target {target} must lie between 0 and 1"
    return f"target {target} must not be above the value {value}" if target > value else None


def check_threshold(value: Decimal, target: Decimal | None) -> str | None:
    """Checks a rule; without a target, it is two percent below the value."""
    if value < 0:
        return f"value {value} must not be negative"
    return f"target {target} must be below the value {value}" if target is not None and target >= value else None


def check_needs_target(value: Decimal, target: Decimal | None) -> str | None:
    return "needs a target below its value" if target is None else check_threshold(value, target)


def batch_cpu_request(pod: PodUse) -> Decimal | None:
    return Decimal(max(0, pod.extended_cpu_request_milli))


def batch_memory_request(pod: PodUse) -> Decimal | None:
    return Decimal(max(0, pod.extended_memory_request_bytes))


def whole_percent(used: Number, capacity: int) -> Decimal:
    """Returns the used share in whole percents, truncated: 0.9583 is 0.95. Raises
    ZeroDivisionError.
    """
    return Decimal(int(exact(used) * 100 / capacity)) / 100


def _threshold(name: str, source: str, resource: MetricResource) -> Metric:
    is_cpu = resource is MetricResource.CPU

    def capacity(view: NodeReadings) -> int | None:
        return view.capacity_milli if is_cpu else view.capacity_bytes

    def readings(view: NodeReadings) -> tuple[MetricSeries, ...]:
        size = capacity(view)
        used = [one for one in view.readings.get(source, ()) if exact(one.value).is_finite()]
        return tuple(MetricSeries(whole_percent(one.value, size), one.labels) for one in used) if size else ()

    def release(view: NodeReadings, reading: Decimal, target: Decimal) -> Decimal | None:
        size = capacity(view)
        return None if size is None else Decimal(int(size * (reading - target)))

    def evict(pod: PodUse) -> Decimal | None:
        used = pod.cpu_usage_milli if is_cpu else pod.memory_usage_bytes
        return None if used is None else exact(used)

    size_name, unit = ("capacity", Dimension.CPU) if is_cpu else ("capacity_memory", Dimension.MEMORY)
    return Metric(
        name,
        Dimension.RATIO,
        resource,
        readings=readings,
        reached_counts=True,
        release=release,
        formula=f"(reading - target) x {size_name}",
        basis=lambda view: () if is_cpu else (Fact(size_name, view.capacity_bytes, unit),),
        sort=BEST_EFFORT_CPU if is_cpu else BEST_EFFORT_MEMORY,
        evictable=True,
        evict=evict,
        evict_quantified=True,
        reads_pods=False,
        concerns=is_best_effort,
        check=check_threshold,
        also_called=frozenset({"CPUEvict"} if is_cpu else {"BEMemoryEvict", "MemoryEvict"}),
        target_of=lambda value: max(ZERO, value - DEFAULT_BELOW),
    )


def _promised(name: str, tier: Tier, resource: MetricResource, evict: Evict) -> Metric:
    """Returns the metric of a tier's requests over the node's offer. An unknown offer gives no
    reading, so no action; against an offer of 0 all requests are to be released.
    """
    is_cpu = resource in (MetricResource.BATCH_CPU_REQUEST, MetricResource.MID_CPU_REQUEST)

    def offered(view: NodeReadings) -> int | None:
        if tier is Tier.BATCH:
            return view.extended_cpu_allocatable_milli if is_cpu else view.extended_memory_allocatable_bytes
        return view.mid_cpu_allocatable_milli if is_cpu else view.mid_memory_allocatable_bytes

    def of_tier(pod: PodUse) -> bool:
        return pod.tier is tier

    def requested(view: NodeReadings) -> Decimal:
        return sum((evict(pod) or ZERO for pod in view.pods if of_tier(pod)), ZERO)

    def readings(view: NodeReadings) -> tuple[MetricSeries, ...]:
        size, asked = offered(view), requested(view)
        if size is None:
            return ()
        if size <= 0:
            return (MetricSeries(PROMISED_IN_VAIN if asked > 0 else ZERO),)
        return (MetricSeries(asked / size),)

    def release(view: NodeReadings, _reading: Decimal, target: Decimal) -> Decimal | None:
        size = offered(view)
        return None if size is None else Decimal(int(requested(view) - target * max(0, size)))

    def basis(view: NodeReadings) -> tuple[Fact, ...]:
        unit = Dimension.CPU if is_cpu else Dimension.MEMORY
        return Fact("requested", requested(view), unit), Fact("offered", offered(view), unit)

    return Metric(
        name,
        Dimension.RATIO,
        resource,
        action_priority=2,
        readings=readings,
        release=release,
        formula="requested - target x offered",
        basis=basis,
        sort=BEST_EFFORT_CPU if is_cpu else BEST_EFFORT_MEMORY,
        evictable=True,
        evict=evict,
        evict_quantified=True,
        concerns=of_tier,
        check=check_needs_target,
        also_called=frozenset({"CPUAllocatableEvict" if is_cpu else "MemoryAllocatableEvict"}),
        largest=PROMISED_IN_VAIN,
    )


BEST_EFFORT: Final = (
    satisfaction("batch_cpu_shortfall"),
    satisfaction("batch_cpu_shortfall_of_allocatable", by_allocatable=True),
    _threshold("batch_cpu_threshold", "node_cpu_usage", MetricResource.CPU),
    _threshold("batch_memory_threshold", "node_memory_usage", MetricResource.MEMORY),
    _promised("batch_cpu_requested_ratio", Tier.BATCH, MetricResource.BATCH_CPU_REQUEST, batch_cpu_request),
    _promised("batch_memory_requested_ratio", Tier.BATCH, MetricResource.BATCH_MEMORY_REQUEST, batch_memory_request),
    _promised("mid_cpu_requested_ratio", Tier.MID, MetricResource.MID_CPU_REQUEST, batch_cpu_request),
    _promised("mid_memory_requested_ratio", Tier.MID, MetricResource.MID_MEMORY_REQUEST, batch_memory_request),
)
