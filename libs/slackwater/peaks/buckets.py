"""Bucket layouts of histograms: the bucket of a value, and the start of each bucket.

Exponential buckets bound the relative error of a percentile. A percentile reads as the end of its bucket, so it is
never below the true one and exceeds it by at most the bucket's width: 5 % plus the first bucket's width at growth 1.05
(1.0 core reads 1.036). Values below the first boundary read as that boundary. Linear buckets bound the absolute error
by their size, for signals whose scale is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slackwater.model.bounds import MOST_SUM_CPU_MILLI, MOST_SUM_MEMORY_BYTES
from slackwater.model.errors import InvalidInput

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class Buckets(Protocol):
    """A partition of [0, inf): bucket n covers starts[n] to starts[n + 1]; the last bucket is unbounded."""

    @property
    def count(self) -> int: ...

    @property
    def starts(self) -> Floats: ...

    def find(self, values: Floats) -> Rows:
        """Returns the bucket of each value. Negative values are in the first bucket, values above the range in the
        last.
        """
        ...


@dataclass(frozen=True)
class ExponentialBuckets:
    """The first bucket is `first` wide, each next one `growth` times the one before; `maximum` is covered.

    Raises InvalidInput for layouts that cover nothing.
    """

    first: float
    maximum: float
    growth: float = 1.05

    def __post_init__(self) -> None:
        _above(0, first=self.first, maximum=self.maximum)
        _above(1, growth=self.growth)

    @cached_property
    def count(self) -> int:
        span = self.maximum * (self.growth - 1) / self.first + 1
        return math.ceil(math.log(span) / math.log(self.growth)) + 1

    @cached_property
    def starts(self) -> Floats:
        exponents = np.arange(self.count, dtype=np.float64)
        return self.first * (np.power(self.growth, exponents) - 1) / (self.growth - 1)

    def find(self, values: Floats) -> Rows:
        scaled = np.maximum(values, 0.0) * ((self.growth - 1) / self.first) + 1
        bucket = np.clip(np.log(scaled) / math.log(self.growth), 1, self.count - 1).astype(np.intp)
        return np.where(values < self.first, 0, bucket)


@dataclass(frozen=True)
class LinearBuckets:
    """Every bucket is `size` wide; `maximum` is covered. Raises InvalidInput for layouts that cover nothing."""

    size: float
    maximum: float

    def __post_init__(self) -> None:
        _above(0, size=self.size, maximum=self.maximum)

    @cached_property
    def count(self) -> int:
        return math.ceil(self.maximum / self.size) + 1

    @cached_property
    def starts(self) -> Floats:
        return np.arange(self.count, dtype=np.float64) * self.size

    def find(self, values: Floats) -> Rows:
        return np.clip(values / self.size, 0, self.count - 1).astype(np.intp)


def _above(limit: float, **fields: float) -> None:
    for name, value in fields.items():
        if not (math.isfinite(value) and value > limit):
            raise InvalidInput(f"buckets: {name} is {value}; it must be a number above {limit}", field=name)


CPU_MILLI = ExponentialBuckets(first=25.0, maximum=float(MOST_SUM_CPU_MILLI))
MEMORY_BYTES = ExponentialBuckets(first=5.0 * 2**20, maximum=float(MOST_SUM_MEMORY_BYTES))
"""From 25 milli-cores and 5 MiB to the most that the pods of a machine can use together. Histograms hold only as many
of these buckets as their largest value needs.
"""
