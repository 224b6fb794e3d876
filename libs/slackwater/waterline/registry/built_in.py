"""The built-in metrics. CPU in milli-cores, memory in bytes, everything else as a ratio 0..1."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from slackwater.model.tiers import Tier
from slackwater.waterline.actuation.cpu_quota import restore_cpu, throttle_cpu
from slackwater.waterline.facts.amounts import Number, exact
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import CPU, EXTENDED_CPU
from slackwater.waterline.registry.best_effort import BEST_EFFORT
from slackwater.waterline.registry.devices import DEVICES
from slackwater.waterline.registry.limited_pods import beyond_limits, net_beyond
from slackwater.waterline.registry.memory import MEMORY
from slackwater.waterline.registry.metric import Dimension, Metric, MetricResource, Metrics

PRESSURE_CAP: Final = Decimal("0.9")
"""When prod waited nearly all the time, pressure no longer measures the shortage: the gap would
diverge.
"""


def _exact_or_none(value: Number | None) -> Decimal | None:
    return None if value is None else exact(value)


def cpu_of(pod: PodUse) -> Decimal | None:
    return _exact_or_none(pod.cpu_usage_milli)


def uses_batch_cpu(pod: PodUse) -> bool:
    """Returns whether the pod uses lent CPU."""
    return pod.extended_cpu_limit_milli > 0 or pod.tier in (Tier.BATCH, Tier.FREE)


def batch_cpu_of(pod: PodUse) -> Decimal | None:
    return _exact_or_none(pod.cpu_usage_milli if pod.extended_cpu_usage_milli is None else pod.extended_cpu_usage_milli)


def _of_capacity_cpu(view: NodeReadings, reading: Decimal, target: Decimal) -> Decimal | None:
    return None if view.capacity_milli is None else (reading - target) * view.capacity_milli


def _used_cpu(view: NodeReadings) -> tuple[MetricSeries, ...]:
    beyond = beyond_limits(view)
    return _less(view.readings.get("node_cpu_usage", ()), beyond)


def _used_cpu_ratio(view: NodeReadings) -> tuple[MetricSeries, ...]:
    series = view.readings.get("node_cpu_usage_ratio", ())
    if not view.capacity_milli:
        return series
    return _less(series, beyond_limits(view) / view.capacity_milli)


def _less(series: tuple[MetricSeries, ...], beyond: Decimal) -> tuple[MetricSeries, ...]:
    if not beyond:
        return series
    known = [one for one in series if exact(one.value).is_finite()]
    return tuple(MetricSeries(max(Decimal(0), exact(one.value) - beyond), one.labels) for one in known)


def _lacked_by_prod(view: NodeReadings, reading: Decimal, target: Decimal) -> Decimal | None:
    """Returns the CPU that prod lacked: tasks that ran for R and waited a share p of their time
    wanted R / (1 - p).

    Pressure gives no headroom: a restore needs a further metric.
    """
    if view.prod_usage_milli is None or reading <= target:
        return None
    used, pressure = exact(view.prod_usage_milli), min(reading, PRESSURE_CAP)
    wanted = (used / (1 - pressure)).to_integral_value()  # pressure is no better known than that
    return (wanted if view.capacity_milli is None else min(wanted, Decimal(view.capacity_milli))) - used


def is_mid(pod: PodUse) -> bool:
    return pod.tier is Tier.MID


def _batch_cpu(view: NodeReadings) -> tuple[MetricSeries, ...]:
    pods = [pod for pod in view.pods if uses_batch_cpu(pod)]
    summed = _summed("batch_cpu_usage", view, [batch_cpu_of(pod) for pod in pods])
    return summed if "batch_cpu_usage" in view.readings else _less(summed, net_beyond(pods))


def _mid_cpu(view: NodeReadings) -> tuple[MetricSeries, ...]:
    return _summed("mid_cpu_usage", view, [cpu_of(pod) for pod in view.pods if is_mid(pod)])


def _summed(name: str, view: NodeReadings, used: Sequence[Decimal | None]) -> tuple[MetricSeries, ...]:
    """Returns the reading, else the sum over the pods; unknown if it is unknown for one of them."""
    if name in view.readings:
        return view.readings[name]
    known = [amount for amount in used if amount is not None]
    return (MetricSeries(sum(known, Decimal(0))),) if len(known) == len(used) else ()


NODE_CPU_USAGE: Final = Metric(
    "node_cpu_usage",
    Dimension.CPU,
    MetricResource.CPU,
    readings=_used_cpu,
    reads_pods=False,  # without them the reading is no lower, so what is calm without is calm with them
    refilled=True,
    sort=CPU,
    throttle=throttle_cpu,
    restore=restore_cpu,
    throttle_quantified=True,
    evictable=True,
    evict=cpu_of,
    evict_quantified=True,
)
NODE_CPU_USAGE_RATIO: Final = Metric(
    "node_cpu_usage_ratio",
    Dimension.RATIO,
    MetricResource.CPU,
    readings=_used_cpu_ratio,
    reads_pods=False,
    refilled=True,
    release=_of_capacity_cpu,
    formula="(reading - target) x capacity",
    sort=CPU,
    throttle=throttle_cpu,
    restore=restore_cpu,
    throttle_quantified=True,
    evictable=True,
    evict=cpu_of,
    evict_quantified=True,
)
PROD_CPU_PRESSURE: Final = Metric(
    "prod_cpu_pressure",
    Dimension.RATIO,
    MetricResource.CPU,
    action_priority=8,
    release=_lacked_by_prod,
    formula=f"min(capacity, prod_usage / (1 - min(reading, {PRESSURE_CAP}))) - prod_usage",
    left_to_weights=True,
    sort=CPU,
    throttle=throttle_cpu,
    restore=restore_cpu,
    throttle_quantified=True,
    evictable=True,
    evict=cpu_of,
    evict_quantified=True,
)
BATCH_CPU_USAGE: Final = Metric(
    "batch_cpu_usage",
    Dimension.CPU,
    MetricResource.CPU,
    refilled=True,
    readings=_batch_cpu,
    sort=EXTENDED_CPU,
    throttle=throttle_cpu,
    restore=restore_cpu,
    throttle_quantified=True,
    evictable=True,
    evict=batch_cpu_of,
    evict_quantified=True,
    concerns=uses_batch_cpu,
)
MID_CPU_USAGE: Final = Metric(
    "mid_cpu_usage", Dimension.CPU, MetricResource.CPU, readings=_mid_cpu, sort=CPU, evictable=True, evict=cpu_of,
    evict_quantified=True, concerns=is_mid,
)  # fmt: skip
BUILT_IN: Final = Metrics.of(
    NODE_CPU_USAGE,
    NODE_CPU_USAGE_RATIO,
    PROD_CPU_PRESSURE,
    BATCH_CPU_USAGE,
    MID_CPU_USAGE,
    *MEMORY,
    *DEVICES,
    *BEST_EFFORT,
)
