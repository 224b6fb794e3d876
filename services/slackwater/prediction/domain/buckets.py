"""Bucket layouts: which bucket a value falls into, and where buckets start.

Exponential buckets bound the relative error of a percentile instead of the absolute one: a percentile reads as the
end of its bucket, so it is never below the true one and above it by at most the bucket's width: 5 % plus the first
bucket's width at growth 1.05 (1.0 core reads 1.036). Values below the first boundary read as that boundary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class Buckets(Protocol):
    """A partition of [0, inf): bucket n covers starts[n] to starts[n + 1], the last one everything above."""

    @property
    def count(self) -> int: ...

    @property
    def starts(self) -> Floats: ...

    def find(self, values: Floats) -> Rows:
        """The bucket of each value; negative values fall into the first, huge ones into the last."""
        ...


@dataclass(frozen=True)
class ExponentialBuckets:
    """The first bucket is `first` wide, each next one `growth` times the one before; `maximum` is still covered."""

    first: float
    maximum: float
    growth: float = 1.05

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
        found = (np.log(scaled) / math.log(self.growth)).astype(np.intp)
        return np.where(values < self.first, 0, np.clip(found, 1, self.count - 1))


CPU_MILLI = ExponentialBuckets(first=25.0, maximum=1_024_000.0)
"""158 buckets from 25 milli-cores to 1024 cores."""

MEMORY_BYTES = ExponentialBuckets(first=5.0 * 2**20, maximum=2.0**41)
"""205 buckets from 5 MiB to 2 TiB."""
