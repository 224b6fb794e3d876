"""Comparators: each orders two pods by one property. The first in order is acted on first.

Each is a key, not a function of two pods: keys make every comparator transitive, so that any chain
is an order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.facts.amounts import Number
from slackwater.waterline.facts.pods import PodUse

Key = Callable[[PodUse], Number]

_TIERS: Final = {Tier.FREE: 0, Tier.BATCH: 1, Tier.MID: 2, Tier.PROD: 3}
_CLASSES: Final = {None: 0, QoSClass.BE: 1, QoSClass.LS: 2, QoSClass.LSR: 3, QoSClass.LSE: 4, QoSClass.SYSTEM: 5}
_GRAINS_PER_MILLI: Final = 1_000_000
"""Usage is compared in whole billionths of a core; smaller differences are rounding errors."""

_LATER_THAN_ALL: Final = -float(2**53)
"""A finite maximum: keys are part of records, and JSON has no infinity."""


@dataclass(frozen=True, slots=True)
class Comparator:
    """The pod with the smaller key comes first; the next comparator decides between equal keys."""

    name: str
    key: Key

    def compare(self, one: PodUse, other: PodUse) -> int:
        """-1: `one` first, 1: `other` first, 0: undecided."""
        mine, theirs = self.key(one), self.key(other)
        return (mine > theirs) - (mine < theirs)

    def turned(self) -> Comparator:
        """Returns the reversed comparator."""
        key = self.key
        return Comparator(f"{self.name} (turned)", lambda pod: -key(pod))


def _ratio(part: Number | None, whole: Number) -> float:
    return float(part) / float(whole) if part is not None and whole > 0 else 0.0


def _started(pod: PodUse) -> float:
    return _LATER_THAN_ALL if pod.started_at is None else -pod.started_at.timestamp()


def _extended_usage(pod: PodUse) -> Number | None:
    """Returns batch CPU usage; a pod that does not report it separately uses batch CPU for all its
    usage.
    """
    return pod.cpu_usage_milli if pod.extended_cpu_usage_milli is None else pod.extended_cpu_usage_milli


TIER: Final = Comparator("lower tier", lambda pod: 2 if pod.tier is None else _TIERS[pod.tier])
QOS_CLASS: Final = Comparator("lower QoS class", lambda pod: _CLASSES[pod.qos])
PRIORITY: Final = Comparator("lower priority", lambda pod: pod.priority or 0)
CPU_USAGE: Final = Comparator("more CPU used", lambda pod: -int((pod.cpu_usage_milli or 0) * _GRAINS_PER_MILLI))
MEMORY_USAGE: Final = Comparator("more memory used", lambda pod: -int(pod.memory_usage_bytes or 0))
HOLDS_EXTENDED_CPU: Final = Comparator("holds batch CPU", lambda pod: 0 if pod.extended_cpu_limit_milli else 1)
HOLDS_EXTENDED_MEMORY: Final = Comparator("holds batch memory", lambda pod: 0 if pod.extended_memory_limit_bytes else 1)
EXTENDED_CPU: Final = Comparator(
    "more of its batch CPU used", lambda pod: -_ratio(_extended_usage(pod), pod.extended_cpu_limit_milli)
)
EXTENDED_MEMORY: Final = Comparator(
    "more of its batch memory used", lambda pod: -_ratio(pod.memory_usage_bytes, pod.extended_memory_limit_bytes)
)
CPU_OVER_REQUEST: Final = Comparator(
    "more of its request used",
    lambda pod: -_ratio(pod.cpu_usage_milli, pod.extended_cpu_request_milli or pod.cpu_request_milli),
)
RUNNING_TIME: Final = Comparator("started later", _started)
"""The longest-running pod loses most and comes last; a pod without a start time comes first."""
EVICTION_PRIORITY: Final = Comparator("lower eviction priority", lambda pod: pod.eviction_priority)
LABEL_PRIORITY: Final = Comparator(
    "lower priority by label", lambda pod: (pod.priority or 0) if pod.label_priority is None else pod.label_priority
)
MEMORY_MEASURED: Final = Comparator("memory was measured", lambda pod: 0 if pod.memory_usage_bytes is not None else 1)
