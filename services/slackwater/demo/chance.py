"""How often requests are slow by chance: a p99 of a few hundred requests is decided by two or three of them. Pure."""

from __future__ import annotations

from math import exp, lgamma, log
from typing import Final

BY_CHANCE: Final = 0.01
"""A p99 above its bound is a miss only where so many slow requests come by chance in at most so many runs. A run of
the scene lend with one turn each once missed by 2.4 ms on a quiet machine, and the next met the bound: three requests
decided it. The scene policies missed by 0.2 of 23.8 ms in the same way."""


def by_chance(slow: int, requests: int) -> float:
    """Returns the probability that at least `slow` of `requests` are slower than a true p99: the upper tail of a
    binomial distribution with p = 0.01."""
    if slow <= 0:
        return 1.0
    if slow > requests:
        return 0.0
    return min(1.0, sum(exp(_log_probability(count, requests)) for count in range(slow, requests + 1)))


def _log_probability(count: int, requests: int) -> float:
    ways = lgamma(requests + 1) - lgamma(count + 1) - lgamma(requests - count + 1)
    return ways + count * log(0.01) + (requests - count) * log(0.99)
