"""When a report is due: at its interval; at once when a local waterline is crossed or the pods change; every sample
while above a waterline.

While a throttle is in force every sample is reported too, so that a restore is decided on fresh numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from slackwater.agent.domain.observation import Instant

Trigger = Literal["interval", "waterline", "pods"]


class LocalMetric(StrEnum):
    """What a local waterline may watch; names as in `intent.declared`."""

    PROD_CPU_PRESSURE = "prod_cpu_pressure"
    NODE_CPU_USAGE_RATIO = "node_cpu_usage_ratio"
    PROD_MEMORY_PRESSURE = "prod_memory_pressure"
    PROD_MEMORY_REFAULTS = "prod_memory_refaults"
    NODE_MEMORY_USAGE_RATIO = "node_memory_usage_ratio"


MEMORY = frozenset({LocalMetric.NODE_MEMORY_USAGE_RATIO.value})
"""What a machine runs out of: seconds count, and nothing is gained by measuring for longer."""


@dataclass(frozen=True, slots=True)
class Waterline:
    """A metric by name and the value above which the agent reports at once: 0..1, or bytes per second of refaults.
    Unknown metrics never trigger."""

    metric: str
    value: float


def above(
    waterlines: Sequence[Waterline], instant: Instant, capacity_milli: int, capacity_bytes: int = 0
) -> frozenset[Waterline]:
    """The waterlines that are exceeded in the last interval; an unknown value exceeds nothing."""
    ratio = None if instant.node_cpu_milli is None or capacity_milli <= 0 else instant.node_cpu_milli / capacity_milli
    memory = instant.node_memory_bytes
    values = {
        LocalMetric.PROD_CPU_PRESSURE.value: instant.prod_cpu_pressure,
        LocalMetric.NODE_CPU_USAGE_RATIO.value: ratio,
        LocalMetric.PROD_MEMORY_PRESSURE.value: instant.prod_memory_pressure,
        LocalMetric.PROD_MEMORY_REFAULTS.value: instant.prod_refaults,
        LocalMetric.NODE_MEMORY_USAGE_RATIO.value: (
            None if memory is None or capacity_bytes <= 0 else memory / capacity_bytes
        ),
    }
    return frozenset(
        line for line in waterlines if (value := values.get(line.metric)) is not None and value > line.value
    )


def due(
    *, is_above: bool, throttled: bool, changed: bool, since_last_seconds: float, interval_seconds: float
) -> Trigger | None:
    """Why to report after this sample, or None. 50 ms of tolerance keeps an interval from drifting."""
    if is_above:
        return "waterline"
    if throttled or since_last_seconds >= interval_seconds - 0.05:
        return "interval"
    return "pods" if changed else None
