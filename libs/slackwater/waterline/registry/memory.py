"""The built-in metrics of memory, in bytes or as a ratio 0..1."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from slackwater.waterline.facts.amounts import ZERO, exact
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering import chains
from slackwater.waterline.registry.metric import Dimension, Fact, MemoryThrottling, Metric, MetricResource

FREE_MEMORY: Final = "node_memory_free"
"""The reading of free memory: no metric of a rule, because page cache fills what is free on any healthy node."""


def memory_of(pod: PodUse) -> Decimal | None:
    return None if pod.memory_usage_bytes is None else exact(pod.memory_usage_bytes)


def _of_capacity(view: NodeReadings, reading: Decimal, target: Decimal) -> Decimal | None:
    return None if view.capacity_bytes is None else (reading - target) * view.capacity_bytes


def _size_in_bytes(view: NodeReadings) -> tuple[Fact, ...]:
    return (Fact("capacity_memory", view.capacity_bytes, Dimension.MEMORY),)


def _above(_view: NodeReadings, reading: Decimal, target: Decimal, _horizon: Decimal) -> Decimal | None:
    return reading - target


def _above_of_capacity(view: NodeReadings, reading: Decimal, target: Decimal, _horizon: Decimal) -> Decimal | None:
    return _of_capacity(view, reading, target)


def free_memory(view: NodeReadings) -> Decimal | None:
    """Returns the bytes that nothing uses, page cache neither; None if they were not measured."""
    series = view.readings.get(FREE_MEMORY, ())
    return exact(series[0].value) if series else None


def _refaulted(view: NodeReadings, reading: Decimal, _target: Decimal, horizon: Decimal) -> Decimal | None:
    """Returns the page cache that prod lacks: what it reads again within the horizon, beyond what is free for it. After
    a cut prod reads again what it has lost, and that is no reason for the next cut."""
    again = (reading * horizon).to_integral_value()
    return max(ZERO, again - (free_memory(view) or ZERO))


def _free_in_bytes(view: NodeReadings) -> tuple[Fact, ...]:
    free = free_memory(view)
    return () if free is None else (Fact("free_memory", free, Dimension.MEMORY),)


NODE_MEMORY_USAGE: Final = Metric(
    "node_memory_usage",
    Dimension.MEMORY,
    MetricResource.MEMORY,
    action_priority=6,
    sort=chains.MEMORY,
    evictable=True,
    evict=memory_of,
    evict_quantified=True,
    memory=MemoryThrottling(_above, "reading - target", has_headroom=True),
)
NODE_MEMORY_USAGE_RATIO: Final = Metric(
    "node_memory_usage_ratio",
    Dimension.RATIO,
    MetricResource.MEMORY,
    action_priority=6,
    release=_of_capacity,
    formula="(reading - target) x capacity_memory",
    basis=_size_in_bytes,
    sort=chains.MEMORY,
    evictable=True,
    evict=memory_of,
    evict_quantified=True,
    memory=MemoryThrottling(_above_of_capacity, "(reading - target) x capacity_memory", has_headroom=True),
)
NODE_MEMORY_PRESSURE: Final = Metric("node_memory_pressure", Dimension.RATIO, sort=chains.MEMORY, evictable=True)
PROD_MEMORY_PRESSURE: Final = Metric(
    "prod_memory_pressure", Dimension.RATIO, sort=chains.MEMORY, evictable=True, memory=MemoryThrottling()
)
PROD_MEMORY_REFAULTS: Final = Metric(
    "prod_memory_refaults",
    Dimension.BYTES_PER_SECOND,
    MetricResource.MEMORY,
    sort=chains.MEMORY,
    evictable=True,
    basis=_free_in_bytes,
    memory=MemoryThrottling(_refaulted, "reading x horizon - free_memory, not below 0", is_bounded=True),
)

MEMORY: Final = (
    NODE_MEMORY_USAGE,
    NODE_MEMORY_USAGE_RATIO,
    NODE_MEMORY_PRESSURE,
    PROD_MEMORY_PRESSURE,
    PROD_MEMORY_REFAULTS,
)
