"""Median and spread of the turns of a variant, and on which side of another variant they all are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import median


def spread_text(values: Sequence[float], digits: int = 1) -> str:
    """Returns the median with the smallest and largest value, like `22.1 (21.0 to 24.3)`."""
    if not values:
        return "not measured"
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def side(values: Sequence[float], others: Sequence[float]) -> int:
    """Returns -1 if all values are below all others, 1 if all are above, by a larger factor than the values of a side
    differ; else 0, because two turns of each are on two sides by chance in one of three runs.

    Factors, because a response time of 200 ms varies by more milliseconds than one of 20. All values >= 0.
    """
    if not values or not others:
        return 0
    within = max(_factor(min(values), max(values)), _factor(min(others), max(others)))
    if max(values) < min(others):
        return -1 if _factor(max(values), min(others)) > within else 0
    return 1 if max(others) < min(values) and _factor(max(others), min(values)) > within else 0


def _factor(low: float, high: float) -> float:
    if low == high:
        return 1.0
    return high / low if low > 0 else inf


def difference_text(name: str, values: Sequence[float], other_name: str, others: Sequence[float]) -> str:
    """Returns whether a variant is clearly below or above another in every turn, or that it is not."""
    turns = f"all {len(values) + len(others)} turns" if len(values) > 1 else "the one turn of each"
    match side(values, others):
        case -1:
            return f"{name} is lower than {other_name} in {turns}"
        case 1:
            return f"{name} is higher than {other_name} in {turns}"
    return f"no difference between {name} and {other_name} beyond that of their own turns"
