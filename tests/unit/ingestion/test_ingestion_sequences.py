"""Numbered reports: each is taken once, and the holes add up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from slackwater.ingestion.domain.reports import SequenceTrack
from slackwater.ingestion.domain.sequences import (
    REMEMBERED,
    REMEMBERED_EPOCHS,
    BootOrder,
    Fresh,
    Repeated,
    observe,
    order_of,
)

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


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


def ordered(arrivals: list[tuple[str, int, float, bool]]) -> tuple[SequenceTrack, list[bool]]:
    """Plays epoch, sequence, seconds of the measurement, and whether the node is fresh when the report comes."""
    track, newest, taken = SequenceTrack(), None, []
    for epoch, sequence, seconds, is_fresh in arrivals:
        measured_at = NOON + timedelta(seconds=seconds)
        order = BootOrder.LATER if epoch == track.boot_epoch else order_of(measured_at, newest, is_fresh=is_fresh)
        found = observe(track, epoch, sequence, order)
        taken.append(isinstance(found, Fresh))
        if isinstance(found, Fresh):
            track, newest = found.track, max(newest or measured_at, measured_at)
    return track, taken


def test_an_earlier_boot_that_was_never_seen_does_not_replace_the_running_agent() -> None:
    track, taken = ordered([("a", 1, 0, True), ("c", 1, 20, True), ("b", 1, 10, True), ("c", 2, 25, True)])
    assert (track.boot_epoch, track.last, taken) == ("c", 2, [True, True, False, True])


def test_an_agent_whose_clock_was_set_back_takes_over_once_the_other_is_silent() -> None:
    track, taken = ordered([("a", 9, 0, True), ("b", 1, -200, True), ("b", 2, -195, False), ("b", 3, -190, True)])
    assert (track, taken) == (SequenceTrack("b", ("a",), 3, (1,)), [True, False, True, True])


def test_an_agent_that_was_taken_for_replaced_returns_once_the_late_one_is_silent() -> None:
    late = [("a", 1, 0, True), ("c", 7, 20, True), ("b", 1, 10, False)]
    track, taken = ordered([*late, ("c", 8, 40, True), ("c", 9, 45, False), ("c", 8, 40, True), ("c", 10, 50, True)])
    assert (track, taken) == (SequenceTrack("c", ("b", "a"), 10), [True, True, True, False, True, False, True])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5), st.booleans()), max_size=40))
def test_no_report_is_taken_twice_in_whatever_order_boots_arrive(arrivals: list[tuple[int, int, bool]]) -> None:
    """Boots follow each other in time, and each report may come at any time and again."""
    given_ = [(f"boot-{boot}", number, 100.0 * boot + number, is_fresh) for boot, number, is_fresh in arrivals]
    _, taken = ordered(given_)
    accepted = [(epoch, number) for (epoch, number, *_), is_taken in zip(given_, taken, strict=True) if is_taken]
    assert len(set(accepted)) == len(accepted)


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
