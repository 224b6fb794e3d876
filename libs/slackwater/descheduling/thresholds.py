"""Thresholds of LowNodeLoad: from percents, or deviations from the mean, to amounts of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from slackwater.descheduling.placement import Amounts
from slackwater.model.records import record

Percents = Mapping[str, float]
ALL = 100.0


@record(frozen=True, slots=True)
class ThresholdPair:
    """Low and high by resource, in percent, or in percent points from the mean."""

    low: Percents
    high: Percents

    def completed(self, *, deviation: bool) -> ThresholdPair:
        """Returns the pair with a low and a high of every resource that it names, and of memory.

        A high without a low has the same low; a low without a high has no high. As deviations, absent is 0, which
        stands for the whole capacity.
        """
        absent = 0.0 if deviation else ALL
        names = [*self.low, *(name for name in self.high if name not in self.low)]
        if "memory" not in names:
            names.append("memory")
        low = {name: self.low.get(name, self.high.get(name, absent)) for name in names}
        high = {name: self.high.get(name, absent) for name in names}
        return ThresholdPair(low, high)

    def around(self, means: Percents) -> ThresholdPair:
        """Returns percents from deviations: the mean less low, the mean plus high, within 0..100."""
        low, high = {}, {}
        for name, deviation in self.low.items():
            above = self.high[name]
            mean = means.get(name, 0.0)
            whole = deviation == 0 or above == 0
            low[name] = ALL if whole else min(max(mean - deviation, 0.0), ALL)
            high[name] = ALL if whole else min(max(mean + above, 0.0), ALL)
        return ThresholdPair(low, high)


def amount_of(percent: float, capacity: int) -> int:
    """Returns a percent of a capacity, truncated; exact for whole percents."""
    if percent == int(percent):
        return capacity * int(percent) // 100
    return int(capacity * percent / 100)


def usage_percent(usage: Amounts, capacity: Amounts) -> dict[str, float]:
    """Returns usage in percent of the capacity, by resource of the usage; 0 where the node has none of it."""
    return {name: 100 * amount / capacity[name] if capacity.get(name) else 0.0 for name, amount in usage.items()}


def mean_percents(usages: Sequence[Amounts], capacities: Sequence[Amounts], names: Sequence[str]) -> dict[str, float]:
    """Returns the mean over the nodes, each counting alike; empty without nodes."""
    if not usages:
        return {}
    percents = [usage_percent(usage, capacity) for usage, capacity in zip(usages, capacities, strict=True)]
    return {name: fmean(percent.get(name, 0.0) for percent in percents) for name in names}


def node_score(usage: Amounts, capacity: Amounts, weights: Mapping[str, float]) -> int:
    """Returns the weighted mean of usage in thousandths of the capacity, at most 1000, rounded down as in the field."""
    total = sum(weights.values())
    if total <= 0:
        return 0
    score = 0.0
    for name, weight in weights.items():
        whole = capacity.get(name, 0)
        if whole > 0:
            score += weight * (min(usage.get(name, 0), whole) * 1000 // whole)
    return int(score // total)
