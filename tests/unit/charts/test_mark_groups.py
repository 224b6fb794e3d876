"""Marks that lie too close become one with their number: no mark is lost, none overlap, and the link covers them."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.charts.marks import APART, LISTED, ChartMark, css_of_group, draw_marks, group_marks
from slackwater.charts.svg import Frame, Scale

SPAN = 900
FRAME = Frame(880, 240)
X = Scale(EPOCH.timestamp(), EPOCH.timestamp() + SPAN, FRAME.x0, FRAME.x1)
KINDS = st.sampled_from(["throttle", "restore", "evict", "scheduling", "throttle told"])


def mark(second: float, css: str = "throttle") -> ChartMark:
    return ChartMark(EPOCH + timedelta(seconds=second), css, f"at {second}", f"/decisions/{second}")


MARKS = st.lists(st.builds(mark, st.floats(0, SPAN), KINDS), max_size=60)


@given(MARKS)
def test_every_mark_is_in_one_group_and_groups_lie_apart(marks: list[ChartMark]) -> None:
    groups = group_marks(marks, X)
    assert [one for group in groups for one in group] == sorted(marks, key=lambda one: one.at)
    places = [[X(one.at.timestamp()) for one in group] for group in groups]
    assert all(place[-1] - place[0] < APART for place in places)
    assert all(after[0] - before[0] >= APART for before, after in pairwise(places))


@given(MARKS)
def test_a_group_states_its_number_and_links_to_the_span_of_its_marks(marks: list[ChartMark]) -> None:
    spans: list[tuple[datetime, datetime]] = []

    def href(first: datetime, last: datetime) -> str:
        spans.append((first, last))
        return "/list"

    drawn = draw_marks(FRAME, X, marks, href)
    groups = group_marks(marks, X)
    assert len(drawn) == len(groups)
    assert spans == [(group[0].at, group[-1].at) for group in groups if len(group) > 1]
    for text, group in zip(drawn, groups, strict=True):
        assert (f">{len(group)}<" in text) == (len(group) > 1)
        assert ('href="/list"' in text) == (len(group) > 1)


def test_a_group_lists_its_first_marks_and_counts_the_rest() -> None:
    (text,) = draw_marks(FRAME, X, [mark(step / 10) for step in range(LISTED + 3)])
    assert f"{LISTED + 3} actions" in text
    assert "and 3 more" in text


def test_a_group_has_the_colour_of_its_most_severe_action_that_was_carried_out() -> None:
    assert css_of_group([mark(0, "restore"), mark(1, "throttle"), mark(2, "evict told")]) == "throttle"
    assert css_of_group([mark(0, "throttle told"), mark(1, "evict told")]) == "evict told"
