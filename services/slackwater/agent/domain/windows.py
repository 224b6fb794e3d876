"""Ring buffers of one series over one window, and what is reported of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """A window of one series in the series' unit. Percentiles are nearest-rank; `count` 0 means the rest is void."""

    avg: int = 0
    p50: int = 0
    p90: int = 0
    p95: int = 0
    p99: int = 0
    max: int = 0
    last: int = 0
    count: int = 0


class Ring:
    """The last `capacity` values; older ones are overwritten."""

    __slots__ = ("_capacity", "_count", "_values")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values = array("q")
        self._count = 0

    def add(self, value: int) -> None:
        if len(self._values) < self._capacity:
            self._values.append(value)
        else:
            self._values[self._count % self._capacity] = value
        self._count += 1

    def clear(self) -> None:
        del self._values[:]
        self._count = 0

    def summary(self) -> Summary:
        if not self._values:
            return Summary()
        return summarize(self._values, last=self._values[(self._count - 1) % self._capacity])


def summarize(values: Sequence[int], last: int) -> Summary:
    """The summary of at least one value."""
    ordered = sorted(values)
    count = len(ordered)
    return Summary(
        avg=(2 * sum(ordered) + count) // (2 * count),
        p50=nearest_rank(ordered, 50),
        p90=nearest_rank(ordered, 90),
        p95=nearest_rank(ordered, 95),
        p99=nearest_rank(ordered, 99),
        max=ordered[-1],
        last=last,
        count=count,
    )


def nearest_rank(ordered: Sequence[int], percent: int) -> int:
    """The smallest value that at least `percent` % of all values do not exceed; exact, in integers."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(1, rank) - 1]
