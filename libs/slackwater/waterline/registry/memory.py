"""The built-in metrics of memory, in bytes or as a ratio 0..1."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering import chains
from slackwater.waterline.registry.metric import Dimension, Fact, MemoryThrottling, Metric, MetricResource


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


def _refaulted(_view: NodeReadings, reading: Decimal, _target: Decimal, horizon: Decimal) -> Decimal | None:
    """Returns what prod reads again within the horizon: the page cache that it lacks."""
    return (reading * horizon).to_integral_value()


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
    memory=MemoryThrottling(_refaulted, "reading x horizon", is_bounded=True),
)

MEMORY: Final = (
    NODE_MEMORY_USAGE,
    NODE_MEMORY_USAGE_RATIO,
    NODE_MEMORY_PRESSURE,
    PROD_MEMORY_PRESSURE,
    PROD_MEMORY_REFAULTS,
)
