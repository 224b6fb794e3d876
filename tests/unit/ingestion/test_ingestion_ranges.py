"""Missing numbers, packed for the database and read again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.ingestion.adapters.range_codec import packed, unpacked


@given(st.sets(st.integers(1, 400), max_size=256))
def test_what_is_packed_reads_as_it_was(numbers: set[int]) -> None:
    missing = tuple(sorted(numbers))
    assert unpacked(packed(missing)) == missing


def test_runs_are_short_and_single_numbers_stay() -> None:
    assert packed(range(7, 263)) == [7, -262]
    assert packed((3, 5, 6, 8, 9, 10, 12)) == [3, 5, 6, 8, -10, 12]


def test_what_was_stored_as_single_numbers_reads_the_same() -> None:
    assert unpacked([3, 4, 5, 9]) == (3, 4, 5, 9)
