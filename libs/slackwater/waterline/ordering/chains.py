"""Chains of comparators: the first that decides counts, the uid breaks ties. Total, stable,
deterministic.

A comparator is a key, not a function of two pods: keys make every comparator transitive, so that any
chain is an order. The first pod in order is acted on first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
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

    def compare(self, use: PodUse, other: PodUse) -> int:
        """-1: `one` first, 1: `other` first, 0: undecided."""
        mine, theirs = self.key(use), self.key(other)
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
EXTENDED_CPU_USAGE: Final = Comparator(
    "more of its batch CPU used", lambda pod: -_ratio(_extended_usage(pod), pod.extended_cpu_limit_milli)
)
EXTENDED_MEMORY_USAGE: Final = Comparator(
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


_uid: Final = attrgetter("uid")


@dataclass(frozen=True, slots=True)
class ComparatorChain:
    """A named order of pods, the first candidate first. Restoring uses the reverse order."""

    name: str
    comparators: tuple[Comparator, ...]

    def keys(self, pod: PodUse) -> tuple[Number, ...]:
        """Returns the keys of a pod's place, one per comparator."""
        return tuple(comparator.key(pod) for comparator in self.comparators)

    def order(self, pods: Iterable[PodUse]) -> list[PodUse]:
        """Returns the pods in order, independent of their input order."""
        return [pod for _, pod in self.ranked(pods)]

    def ranked(self, pods: Iterable[PodUse]) -> list[tuple[tuple[Number, ...], PodUse]]:
        """Returns the pods in order, each with the deciding keys."""
        there = list(pods)
        return [(keys, there[index]) for keys, index in self.places(there)]

    def places(self, pods: Sequence[PodUse]) -> list[tuple[tuple[Number, ...], int]]:
        """Returns the order as indexes. It computes one key at a time over all pods and sorts flat
        tuples, which takes two thirds of the time of a key function per pod.
        """
        columns = [map(comparator.key, pods) for comparator in self.comparators]
        found = sorted(zip(*columns, map(_uid, pods), range(len(pods)), strict=True))
        return [(place[:-2], place[-1]) for place in found]

    def then(self, *more: Comparator, name: str = "") -> ComparatorChain:
        """Returns the chain with further comparators appended."""
        return ComparatorChain(name or self.name, (*self.comparators, *more))

    def __str__(self) -> str:
        return ", ".join((*(comparator.name for comparator in self.comparators), "uid"))


_RANK: Final = (TIER, QOS_CLASS, PRIORITY)
"""Class and priority of the proposal, with the tier before both."""
_PRIORITY_FIRST: Final = (PRIORITY, QOS_CLASS)

GENERAL: Final = ComparatorChain("general", (*_RANK, RUNNING_TIME))
CPU: Final = ComparatorChain("cpu", (*_RANK, CPU_USAGE, EXTENDED_CPU_USAGE, RUNNING_TIME))
EXTENDED_CPU: Final = ComparatorChain("extended-cpu", (*_RANK, EXTENDED_CPU_USAGE, RUNNING_TIME))
MEMORY: Final = ComparatorChain("memory", (*_RANK, MEMORY_USAGE, EXTENDED_MEMORY_USAGE, RUNNING_TIME))
PRIORITY_FIRST: Final = ComparatorChain("priority-first", (*_PRIORITY_FIRST, RUNNING_TIME))
CPU_BORROWERS_FIRST: Final = ComparatorChain(
    "cpu-borrowers-first",
    (HOLDS_EXTENDED_CPU, *_PRIORITY_FIRST, CPU_USAGE, EXTENDED_CPU_USAGE, RUNNING_TIME),
)
MEMORY_BORROWERS_FIRST: Final = ComparatorChain(
    "memory-borrowers-first",
    (HOLDS_EXTENDED_MEMORY, *_PRIORITY_FIRST, MEMORY_USAGE, EXTENDED_MEMORY_USAGE, RUNNING_TIME),
)
BEST_EFFORT_CPU: Final = ComparatorChain("best-effort-cpu", (PRIORITY, CPU_OVER_REQUEST))
BEST_EFFORT_MEMORY: Final = ComparatorChain("best-effort-memory", (PRIORITY, MEMORY_MEASURED, MEMORY_USAGE))
EVICTION_PRIORITY_CPU: Final = ComparatorChain(
    "eviction-priority-cpu", (EVICTION_PRIORITY, PRIORITY, LABEL_PRIORITY, CPU_USAGE)
)
EVICTION_PRIORITY_MEMORY: Final = ComparatorChain(
    "eviction-priority-memory", (EVICTION_PRIORITY, PRIORITY, LABEL_PRIORITY, MEMORY_USAGE)
)

CHAINS: Mapping[str, ComparatorChain] = MappingProxyType(
    {
        chain.name: chain
        for chain in (
            GENERAL,
            CPU,
            EXTENDED_CPU,
            MEMORY,
            PRIORITY_FIRST,
            CPU_BORROWERS_FIRST,
            MEMORY_BORROWERS_FIRST,
            BEST_EFFORT_CPU,
            BEST_EFFORT_MEMORY,
            EVICTION_PRIORITY_CPU,
            EVICTION_PRIORITY_MEMORY,
        )
    }
)
