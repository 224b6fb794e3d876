"""Windows: percentiles against a plain reference, rings, weights."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.domain.windows import Ring, Summary, nearest_rank, summarize

values = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


@given(values, st.sampled_from([50, 90, 95, 99]))
def test_a_percentile_is_the_smallest_value_that_enough_values_do_not_exceed(series: list[int], percent: int) -> None:
    found = nearest_rank(sorted(series), percent)
    covering = [value for value in series if sum(other <= value for other in series) * 100 >= percent * len(series)]
    assert found == min(covering)


@given(values)
def test_a_summary_is_ordered_and_exact_at_its_ends(series: list[int]) -> None:
    found = summarize(series, last=series[-1])
    assert found.p50 <= found.p90 <= found.p95 <= found.p99 <= found.max == max(series)
    assert (found.last, found.count) == (series[-1], len(series))
    assert abs(found.avg * len(series) - sum(series)) <= math.ceil(len(series) / 2)


@given(values, st.integers(1, 20))
def test_a_ring_keeps_exactly_the_newest_values(series: list[int], capacity: int) -> None:
    ring = Ring(capacity)
    for value in series:
        ring.add(value)
    assert ring.summary() == summarize(series[-capacity:], last=series[-1])


def test_an_empty_ring_says_so() -> None:
    ring = Ring(3)
    ring.add(5)
    ring.clear()
    assert ring.summary() == Summary(count=0)
