"""The one word on a figure in two variants of a scene: same, better, worse, or too few to tell. Pure functions.

A figure that was measured differs only where chance rarely gives such turns: by the exact permutation test on ranks, of
all ways to deal the values to the two variants, at most BY_CHANCE are as far apart as the measured one. Three turns of
each variant are the fewest that can show it (2 of 20 ways). A figure that was counted (pods placed, jobs killed) needs
no repetition: it differs where every turn of one variant is beyond every turn of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import combinations
from statistics import median
from typing import Final, Literal

from slackwater.model.errors import SlackwaterError

Better = Literal["less", "more"]
BY_CHANCE: Final = 0.1
FEWEST_TURNS: Final = 3
ALIKE: Final = 0.1
"""Medians that differ by no more than this share of the larger one count as the same."""


class BrokenPromise(SlackwaterError):
    """Something that Slackwater promises was not done, on a busy machine too, and no turn records it."""

    code = "broken_promise"


class Word(StrEnum):
    """The verdict on a figure of the second variant, compared with the first."""

    SAME = "same"
    BETTER = "better"
    WORSE = "worse"
    TOO_FEW = "too few to tell"


def compare(values: Sequence[float], others: Sequence[float], better: Better, *, is_exact: bool = False) -> Word:
    """Returns the word on `others` against `values`; both in any order, all finite."""
    if not values or not others:
        return Word.TOO_FEW
    value, other = median(values), median(others)
    if is_exact:
        is_same = len({*values, *others}) == 1
        is_apart = max(values) < min(others) or max(others) < min(values)
    else:
        is_alike = abs(value - other) <= ALIKE * max(abs(value), abs(other))
        is_same = is_alike and min(len(values), len(others)) >= FEWEST_TURNS
        is_apart = chance(values, others) <= BY_CHANCE
    if is_apart:
        return Word.BETTER if (other < value) == (better == "less") else Word.WORSE
    return Word.SAME if is_same else Word.TOO_FEW


def chance(values: Sequence[float], others: Sequence[float]) -> float:
    """Returns the share of all ways to deal these values to two variants of these sizes whose rank sums are as far
    from their mean as the measured one: 1 where nothing differs. Equal values share the mean of their ranks."""
    ordered = sorted([*values, *others])
    ranks = [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in (*values, *others)]
    mean = sum(ranks) * len(values) / len(ranks)
    distance = abs(sum(ranks[: len(values)]) - mean)
    ways = [abs(sum(dealt) - mean) >= distance - 1e-9 for dealt in combinations(ranks, len(values))]
    return sum(ways) / len(ways)


def spread_text(values: Sequence[float], digits: int = 1) -> str:
    """Returns the median with the smallest and largest value, like `22.1 (21.0 to 24.3)`; `-` without values."""
    if not values:
        return "-"
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"
