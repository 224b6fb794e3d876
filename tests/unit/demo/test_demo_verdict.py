"""The one word on a figure: by the exact permutation test, whatever the values, their order and their side."""

from __future__ import annotations

from itertools import combinations
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo.verdict import ALIKE, BY_CHANCE, Word, chance, compare, spread_text

values = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=5)
TURNED = {Word.BETTER: Word.WORSE, Word.WORSE: Word.BETTER}


@given(values, values, st.booleans())
def test_to_swap_the_sides_or_the_direction_turns_the_word(ours: list[float], others: list[float], exact: bool) -> None:
    word = compare(ours, others, "less", is_exact=exact)
    assert compare(others, ours, "less", is_exact=exact) == TURNED.get(word, word)
    assert compare(ours, others, "more", is_exact=exact) == TURNED.get(word, word)


@given(values, values, st.randoms(use_true_random=False))
def test_the_order_of_turns_does_not_matter(ours: list[float], others: list[float], dice: object) -> None:
    shuffled = sorted(ours)
    assert compare(ours, others, "less") == compare(shuffled, others, "less")


@given(st.lists(st.floats(0.001, 1e6), min_size=4, max_size=8, unique=True), st.data())
def test_what_chance_alone_gives_is_told_apart_in_at_most_a_tenth_of_all_ways(
    numbers: list[float], data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, len(numbers) - 1))
    told = []
    for places in combinations(range(len(numbers)), size):
        ours = [numbers[place] for place in places]
        others = [value for place, value in enumerate(numbers) if place not in places]
        told.append(compare(ours, others, "less") in TURNED)
    assert sum(told) <= BY_CHANCE * len(told)


@given(st.lists(st.floats(1, 10), min_size=1, max_size=2), st.lists(st.floats(1, 10), min_size=1, max_size=2))
def test_two_turns_of_each_tell_nothing_of_what_is_measured(ours: list[float], others: list[float]) -> None:
    assert compare(ours, others, "less") is Word.TOO_FEW


@given(st.lists(st.floats(10, 20), min_size=3, max_size=5), st.floats(2.1, 100))
def test_three_turns_that_are_all_lower_are_better(others: list[float], factor: float) -> None:
    lower = [value / factor for value in others]
    assert (compare(others, lower, "less"), compare(others, lower, "more")) == (Word.BETTER, Word.WORSE)


@given(st.lists(st.floats(10, 20), min_size=3, max_size=5))
def test_the_same_turns_are_the_same(ours: list[float]) -> None:
    assert (compare(ours, ours, "less"), chance(ours, ours)) == (Word.SAME, 1.0)


@given(values, values)
def test_same_is_said_of_medians_that_are_alike_and_of_no_others(ours: list[float], others: list[float]) -> None:
    if compare(ours, others, "less") is Word.SAME:
        low, high = sorted((median(ours), median(others)))
        assert high - low <= ALIKE * high
        assert min(len(ours), len(others)) >= 3


@pytest.mark.parametrize(
    ("ours", "others", "word"),
    [
        ([0], [4], Word.BETTER),
        ([4], [0], Word.WORSE),
        ([0, 0], [0], Word.SAME),
        ([0, 2], [1], Word.TOO_FEW),
        ([1, 2], [2, 3], Word.TOO_FEW),
        ([], [1], Word.TOO_FEW),
    ],
)
def test_what_is_counted_needs_no_repetition(ours: list[float], others: list[float], word: Word) -> None:
    assert compare(ours, others, "more", is_exact=True) is word


def test_a_spread_is_written_with_its_ends() -> None:
    assert spread_text([22.1, 21.0, 24.3]) == "22.1 (21.0 to 24.3)"
    assert (spread_text([3, 3], 0), spread_text([])) == ("3", "-")
