"""Missing sequence numbers as the database keeps them: one number each, a run of them as its first and minus its last.

Under overload every node misses runs of hundreds; as single numbers they were most of what a batch wrote. What was
stored before runs existed reads the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MOST_IN_A_RUN = 1_000_000


def packed(missing: Sequence[int]) -> list[int]:
    """Ascending positive numbers, with runs of three and more put together."""
    if len(missing) > 2 and missing[-1] - missing[0] == len(missing) - 1:
        return [missing[0], -missing[-1]]
    found: list[int] = []
    for first, last in _runs(missing):
        found += [first, -last] if last - first > 1 else range(first, last + 1)
    return found


def unpacked(stored: Sequence[int]) -> tuple[int, ...]:
    """The numbers again. Raises ValueError for more than any node has ever missed, LookupError for the end of a run
    without its beginning."""
    found: list[int] = []
    for number in stored:
        if number < 0:
            if -number - found[-1] > MOST_IN_A_RUN:
                raise ValueError(f"missing: a run of {-number - found[-1]} reports")
            found += range(found[-1] + 1, 1 - number)
        else:
            found.append(number)
    return tuple(found)


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
