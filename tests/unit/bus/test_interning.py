"""What was read is read once, as long as it keeps coming; memory follows what is there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.codec.interning import InternedValues


class Reader:
    """Reads numbers, and counts how often."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self, body: bytes) -> tuple[int]:
        self.reads += 1
        return (int(body),)


def bodies(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


@given(st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=30), st.integers(1, 20))
def test_the_answer_is_always_what_reading_gives(asked: list[list[int]], most: int) -> None:
    recalled = InternedValues(Reader(), most)
    for numbers in asked:
        assert recalled.all([b"%d" % number for number in numbers]) == [(number,) for number in numbers]


def test_what_keeps_coming_is_read_once() -> None:
    reader = Reader()
    recalled = InternedValues(reader)
    for _ in range(50):
        recalled.all(bodies(range(10_000)))
    assert reader.reads == 10_000
    assert recalled.all([b"7"])[0] is recalled.all([memoryview(b"7")])[0]


def test_as_many_as_a_turn_has_questions_are_found_again() -> None:
    reader = Reader()
    recalled = InternedValues(reader, most=10_000)
    for _ in range(20):
        recalled.all(bodies(range(10_000)))
    learned = reader.reads
    for _ in range(20):
        recalled.all(bodies(range(10_000)))
    assert reader.reads == learned


def test_what_came_no_more_is_forgotten() -> None:
    recalled = InternedValues(Reader())
    recalled.all(bodies(range(10_000)))
    for _ in range(200):
        recalled.all(bodies(range(20_000, 20_500)))
    assert len(recalled) == 500


def test_bytes_that_are_never_the_same_twice_cannot_fill_the_memory() -> None:
    recalled = InternedValues(Reader(), most=1000)
    for start in range(0, 50_000, 10):
        recalled.all(bodies(range(start, start + 10)))
        assert len(recalled) <= 2 * 1010


def test_what_cannot_be_read_is_not_kept() -> None:
    recalled = InternedValues(Reader())
    with pytest.raises(ValueError, match="invalid literal"):
        recalled.all([b"1", b"x"])
    assert len(recalled) == 1
