"""A restore gives back at most what the node has, however many limits rise, and its terms still add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.decisions.record import Term
from slackwater.waterline.decision_record import SHARED, within_capacity

raises = st.lists(st.integers(0, 200_000), max_size=12)


@given(raises, st.integers(0, 200_000))
def test_no_more_than_the_capacity_is_given_back(amounts: list[int], capacity: int) -> None:
    terms = [Term(name=f"p{place}", value=-amount) for place, amount in enumerate(amounts)]
    found = within_capacity(terms, capacity)
    assert -sum(term.value for term in found) == min(sum(amounts), capacity)
    assert list(found[: len(terms)]) == terms


@given(raises, st.integers(0, 200_000))
def test_what_a_throttle_releases_is_left_as_it_is(amounts: list[int], capacity: int) -> None:
    terms = tuple(Term(name="p", value=amount) for amount in amounts)
    assert within_capacity(terms, capacity) == terms


def test_three_pods_of_an_eight_core_node_do_not_get_ten_back() -> None:
    found = within_capacity([Term(name=name, value=-3467) for name in "abc"], 8000)
    assert (found[-1].name, found[-1].value) == (SHARED, 2401)
    assert sum(term.value for term in found) == -8000
