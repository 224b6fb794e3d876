"""Numbered reports: each is taken once, and the holes add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.ingestion.domain.reports import SequenceTrack
from slackwater.ingestion.domain.sequences import REMEMBERED, REMEMBERED_EPOCHS, Fresh, Repeated, observe


def play(arrivals: list[tuple[str, int]]) -> tuple[SequenceTrack, list[bool], int]:
    track, taken, gaps = SequenceTrack(), [], 0
    for epoch, sequence in arrivals:
        found = observe(track, epoch, sequence)
        taken.append(isinstance(found, Fresh))
        if isinstance(found, Fresh):
            track, gaps = found.track, gaps + found.gap_delta
    return track, taken, gaps


def test_a_node_that_reported_long_before_it_was_known_has_no_gap() -> None:
    assert play([("a", 4000), ("a", 4001)]) == (SequenceTrack("a", (), 4001), [True, True], 0)


def test_early_reports_of_a_young_node_are_missing_and_still_accepted() -> None:
    assert play([("a", 3), ("a", 1)]) == (SequenceTrack("a", (), 3, (2,)), [True, True], 1)


def test_a_restarted_agent_is_counted_from_one() -> None:
    track, taken, gaps = play([("a", 1), ("b", 3)])
    assert (track.missing, taken, gaps) == ((1, 2), [True, True], 2)


def test_reports_of_a_replaced_agent_are_refused() -> None:
    assert play([("a", 7), ("b", 1), ("a", 8)])[1] == [True, True, False]


def test_a_report_that_comes_again_after_several_restarts_is_refused_and_the_agent_goes_on() -> None:
    track, taken, gaps = play([("a", 1), ("a", 2), ("b", 1), ("c", 1), ("a", 1), ("a", 2), ("c", 2)])
    assert (track, taken, gaps) == (SequenceTrack("c", ("b", "a"), 2), [True] * 4 + [False] * 2 + [True], 0)


def test_a_bounded_number_of_replaced_agents_is_remembered() -> None:
    track, _, _ = play([(f"boot-{number}", 1) for number in range(REMEMBERED_EPOCHS + 3)])
    assert track.previous_epochs == tuple(f"boot-{number}" for number in range(REMEMBERED_EPOCHS + 1, 1, -1))


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8), st.data())
def test_no_report_is_taken_twice_however_late_it_comes_again(reports: list[int], data: st.DataObject) -> None:
    sent = [(f"boot-{epoch}", number + 1) for epoch, numbers in enumerate(reports) for number in range(numbers)]
    arrivals: list[tuple[str, int]] = []
    for report in sent:
        arrivals += [report, *data.draw(st.lists(st.sampled_from(sent[: sent.index(report) + 1]), max_size=2))]
    taken = [arrival for arrival, is_taken in zip(arrivals, play(arrivals)[1], strict=True) if is_taken]
    assert taken == sent


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
    found = observe(SequenceTrack("a", (), 1), "a", 1 + jump)
    assert isinstance(found, Fresh)
    assert found.gap_delta == jump - 1
    assert len(found.track.missing) == min(jump - 1, REMEMBERED)
    assert isinstance(observe(found.track, "a", 1), Repeated)
