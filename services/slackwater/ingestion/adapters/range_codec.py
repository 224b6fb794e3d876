"""Encodes missing sequence numbers for the database: single numbers, or a run as its first and its negated last number.

Under overload every node misses runs of hundreds of reports, and single numbers made up most of what a batch wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MOST_IN_A_RUN = 1_000_000


def packed(missing: Sequence[int]) -> list[int]:
    """Encodes ascending positive numbers; runs of three or more become a pair."""
    if len(missing) > 2 and missing[-1] - missing[0] == len(missing) - 1:
        return [missing[0], -missing[-1]]
    encoded: list[int] = []
    for first, last in _runs(missing):
        encoded += [first, -last] if last - first > 1 else range(first, last + 1)
    return encoded


def unpacked(stored: Sequence[int]) -> tuple[int, ...]:
    """Decodes stored numbers.

    Raises ValueError for a run longer than MOST_IN_A_RUN, LookupError for the end of a run without its start.
    """
    numbers: list[int] = []
    for number in stored:
        if number < 0:
            if -number - numbers[-1] > MOST_IN_A_RUN:
                raise ValueError(f"missing: a run of {-number - numbers[-1]} reports exceeds {MOST_IN_A_RUN}")
            numbers += range(numbers[-1] + 1, 1 - number)
        else:
            numbers.append(number)
    return tuple(numbers)


def _runs(missing: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = 0
    for number in missing:
        if number == last + 1 and first:
            last = number
            continue
        if first:
            yield first, last
        first = last = number
    if first:
        yield first, last
