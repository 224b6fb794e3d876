"""Numbered reports: each is taken once, and the holes add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.ingestion.domain.reports import SequenceTrack
from slackwater.ingestion.domain.sequences import REMEMBERED, Fresh, Repeated, observe


def play(arrivals: list[tuple[str, int]]) -> tuple[SequenceTrack, list[bool], int]:
    track, taken, gaps = SequenceTrack(), [], 0
    for epoch, sequence in arrivals:
        found = observe(track, epoch, sequence)
        taken.append(isinstance(found, Fresh))
        if isinstance(found, Fresh):
            track, gaps = found.track, gaps + found.gap_delta
    return track, taken, gaps


def test_a_node_that_reported_long_before_it_was_known_has_no_gap() -> None:
    assert play([("a", 4000), ("a", 4001)]) == (SequenceTrack("a", None, 4001), [True, True], 0)


def test_early_reports_of_a_young_node_are_missing_and_still_accepted() -> None:
    assert play([("a", 3), ("a", 1)]) == (SequenceTrack("a", None, 3, (2,)), [True, True], 1)


def test_a_restarted_agent_is_counted_from_one() -> None:
    track, taken, gaps = play([("a", 1), ("b", 3)])
    assert (track.missing, taken, gaps) == ((1, 2), [True, True], 2)


def test_reports_of_a_replaced_agent_are_refused() -> None:
    assert play([("a", 7), ("b", 1), ("a", 8)])[1] == [True, True, False]


def test_a_hole_that_is_filled_is_taken_back() -> None:
    track, taken, gaps = play([("a", 1), ("a", 4), ("a", 2), ("a", 2)])
    assert (track.missing, taken, gaps) == ((3,), [True, True, True, False], 1)


@given(st.lists(st.integers(2, 60), max_size=80))
def test_in_any_order_each_number_is_taken_once_and_gaps_are_what_never_came(numbers: list[int]) -> None:
    _, taken, gaps = play([("a", 1), *(("a", number) for number in numbers)])
    assert sum(taken[1:]) == len(set(numbers))
    assert gaps == max([1, *numbers]) - 1 - len(set(numbers))


@given(st.integers(1, 2**40))
def test_a_huge_jump_costs_no_memory(jump: int) -> None:
    found = observe(SequenceTrack("a", None, 1), "a", 1 + jump)
    assert isinstance(found, Fresh)
    assert found.gap_delta == jump - 1
    assert len(found.track.missing) == min(jump - 1, REMEMBERED)
    assert isinstance(observe(found.track, "a", 1), Repeated)
