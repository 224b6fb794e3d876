"""Results are computed once: for one object, or for one value, as long as they are kept."""

from __future__ import annotations

import pytest

from slackwater.model import memo
from slackwater.model.memo import OnceByIdentity, Outcomes


def test_the_same_object_is_computed_once_and_an_equal_one_again() -> None:
    computed: list[list[int]] = []

    def total(value: list[int]) -> int:
        computed.append(value)
        return sum(value)

    once, first, second = OnceByIdentity(total), [1, 2], [1, 2]
    assert [once(first), once(first), once(second)] == [3, 3, 3]
    assert len(computed) == 2


def test_only_the_newest_objects_are_kept_and_none_is_mistaken_for_another() -> None:
    once = OnceByIdentity[list[int], int](sum, most=2)
    assert [once([number]) for number in range(100)] == list(range(100))
    assert len(once._results) == 2


def test_outcomes_are_dropped_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MOST_OUTCOMES", 3)
    tested: list[int] = []
    is_even = Outcomes[int](lambda number: not (tested.append(number) or number % 2))
    assert [is_even(number) for number in (0, 1, 1, 2, 3, 3, 0)] == [True, False, False, True, False, False, True]
    assert tested == [0, 1, 2, 3, 0]
