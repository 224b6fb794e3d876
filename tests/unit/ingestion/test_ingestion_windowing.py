"""Windows: nothing lost, nothing twice, no order; percentiles on the safe side."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH
from tests.support.reports import GIB, pod_usage, report

from slackwater.ingestion.domain.reports import HistoryRow, KnownNode, Report, SequenceTrack, UsageSeries
from slackwater.ingestion.domain.sequences import Fresh, observe
from slackwater.ingestion.domain.windowing import (
    Before,
    Waiting,
    close_limit,
    close_windows,
    heads,
    merge,
    number_of,
    staggered,
    start_of,
)
from slackwater.ingestion.usecases.report_mapping import report_from
from slackwater.model.tiers import Tier


def nearest_rank(samples: list[int], percent: int) -> int:
    return sorted(samples)[max(math.ceil(len(samples) * percent / 100), 1) - 1]


def series_of(samples: list[int]) -> UsageSeries:
    return UsageSeries(
        round(sum(samples) / len(samples)),
        *(nearest_rank(samples, percent) for percent in (50, 90, 95, 99)),
        max(samples),
        samples[-1],
        len(samples),
    )


samples = st.lists(st.integers(0, 10_000), min_size=1, max_size=30)


@given(st.lists(samples, min_size=1, max_size=15))
def test_merged_percentiles_are_never_below_the_truth_nor_above_the_maximum(reports: list[list[int]]) -> None:
    merged = merge([series_of(one) for one in reports])
    pooled = [sample for one in reports for sample in one]
    assert nearest_rank(pooled, 90) <= merged.p90 <= merged.p95 <= merged.max == max(pooled)
    assert nearest_rank(pooled, 95) <= merged.p95
    assert merged.samples == len(pooled)
    assert abs(merged.avg - sum(pooled) / len(pooled)) <= 1


@given(samples)
def test_a_single_report_is_merged_exactly(one: list[int]) -> None:
    series = series_of(one)
    merged = merge([series, UsageSeries(0, 0, 0, 0, 0, 0, 0, 0)])
    assert (merged.avg, merged.p90, merged.p95, merged.max) == (series.avg, series.p90, series.p95, series.max)


def test_one_short_burst_among_many_reports_does_not_become_the_p90() -> None:
    merged = merge([series_of([100] * 5)] * 59 + [series_of([9000] * 5)])
    assert (merged.p90, merged.p95, merged.max) == (100, 100, 9000)


def test_without_samples_all_is_void() -> None:
    assert merge([]).samples == 0


def row(node: str, sequence: int, at_seconds: float, gap: int = 0) -> HistoryRow:
    sampled_at = EPOCH + timedelta(seconds=at_seconds)
    return HistoryRow(report_from(report(node, sequence, sampled_at, cpu_milli=100 * sequence)), sampled_at, gap)


rows = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 300), st.integers(-1, 3)), max_size=40).map(
    lambda items: [row(node, number + 1, at, gap) for number, (node, at, gap) in enumerate(items)]
)


@given(rows, st.sampled_from([5, 7, 60]), st.randoms(use_true_random=False))
def test_every_report_is_in_one_window_whatever_the_order(
    items: list[HistoryRow], seconds: int, shuffler: random.Random
) -> None:
    windows = close_windows(items, seconds)
    assert sum(window.reports for window in windows) == len(items)
    assert sum(window.usage.cpu.samples for window in windows) == sum(item.report.cpu.samples for item in items)
    assert len({(window.node, window.number) for window in windows}) == len(windows)
    for window in windows:
        assert window.start == start_of(window.number, seconds)
        assert window.start.timestamp() == window.number * seconds
    shuffled = list(items)
    shuffler.shuffle(shuffled)
    assert close_windows(shuffled, seconds) == windows


@given(rows, st.floats(0, 300))
def test_closing_in_two_steps_gives_the_windows_of_one(items: list[HistoryRow], cut_seconds: float) -> None:
    cut = start_of(number_of(EPOCH + timedelta(seconds=cut_seconds), 60), 60)
    before = [item for item in items if item.report.midpoint_at < cut]
    after = [item for item in items if item.report.midpoint_at >= cut]
    together = [replace(window, gaps=0) for part in (before, after) for window in close_windows(part, 60)]
    at_once = [replace(window, gaps=0) for window in close_windows(items, 60)]
    assert sorted(together, key=lambda window: (window.node, window.number)) == at_once


def test_a_report_belongs_to_the_window_of_its_middle() -> None:
    windows = close_windows([row("a", 1, 62.0), row("a", 2, 62.6)], 60)
    assert [(window.start - EPOCH).total_seconds() for window in windows] == [0, 60]


def test_late_reports_belong_to_no_window() -> None:
    late = row("a", 1, 3)
    assert close_windows([HistoryRow(late.report, late.received_at, 0, late=True)], 60) == []


def test_a_hole_filled_by_a_report_of_an_earlier_window_is_no_gap_in_any() -> None:
    rows = [row("a", 4, 70, 3), row("a", 1, 52, -1), row("a", 3, 65, -1)]
    assert [window.gaps for window in close_windows(rows, 60)] == [0, 1]


def test_gaps_are_what_never_came() -> None:
    assert close_windows([row("a", 4, 3, 3), row("a", 2, 8, -1)], 60)[0].gaps == 2
    assert close_windows([row("a", 2, 8, -1)], 60)[0].gaps == 1  # it filled a hole, so 1 was expected, too


def test_a_report_that_a_clock_set_forward_has_put_into_a_later_window_is_no_gap() -> None:
    forward = [row("a", 1, 10, 0), row("a", 2, 85, 0), row("a", 3, 20, 0), row("a", 4, 70, 0), row("a", 6, 80, 1)]
    first = [one for one in forward if one.report.sequence in (1, 3)]
    second = [one for one in forward if one not in first]
    assert [window.gaps for window in (*close_windows(first, 60), *close_windows(second, 60))] == [0, 1]


@given(st.permutations(range(1, 30)), st.integers(0, 12), st.integers(1, 29))
def test_gaps_of_windows_closed_one_after_the_other_are_what_never_came(
    order: list[int], dropped: int, cut: int
) -> None:
    """Whatever came before what: an owner that stood still had some in hand, which came after newer ones."""
    track, kept = SequenceTrack(), []
    for number in [1, *(number for number in order[dropped:] if number > 1)]:
        seen = observe(track, "boot-1", number)
        assert isinstance(seen, Fresh)
        track = seen.track
        kept.append(row("a", number, 10 * number, seen.gap_delta))
    first = [one for one in kept if one.report.sequence < cut]
    second = [one for one in kept if one.report.sequence >= cut]
    newest = max((one.report.sequence for one in first), default=None)
    before = {agent: Before(newest) for agent in heads(second)}
    counted = [window.gaps for window in (*close_windows(first, 60), *close_windows(second, 60, before=before))]
    assert sum(counted) == track.last - len(kept) == len(track.missing)


def test_what_came_late_is_no_gap_of_the_next_window() -> None:
    late = Before(sequence=5, late=1)
    assert close_windows([row("a", 8, 62, 2)], 60, before={("a", "boot-1"): late})[0].gaps == 1


def test_a_tier_is_the_sum_of_its_pods_and_only_tiers_with_pods_are_there() -> None:
    pods = [pod_usage("a", Tier.PROD, 300), pod_usage("b", Tier.PROD, 200), pod_usage("c", Tier.BATCH, 50)]
    reports: list[Report] = [report_from(report("n", n, EPOCH + timedelta(seconds=5 * n), pods=pods)) for n in (1, 2)]
    window = close_windows([HistoryRow(one, one.sampled_at) for one in reports], 60)[0]
    assert {tier: amounts.cpu.avg for tier, amounts in window.tiers.items()} == {Tier.PROD: 500, Tier.BATCH: 50}
    assert window.tiers[Tier.PROD].memory.max == GIB // 2
    assert window.tiers[Tier.PROD].cpu.samples == 10
    assert [(found.uid, amounts.cpu.samples) for found, amounts in window.pods] == [("a", 10), ("b", 10), ("c", 10)]


@given(st.text(min_size=1), st.integers(1, 3600), st.timedeltas(timedelta(), timedelta(days=3000)))
def test_staggered_windows_are_as_long_and_numbered_by_their_start(node: str, seconds: int, later: timedelta) -> None:
    moment, phase = EPOCH + later, staggered(seconds)(node)
    number = number_of(moment, seconds, phase)
    start = start_of(number, seconds, phase)
    assert start <= moment < start + timedelta(seconds=seconds)
    assert number == start.timestamp() // seconds
    assert start_of(number + 1, seconds, phase) == start + timedelta(seconds=seconds)


def test_windows_of_many_nodes_end_spread_over_their_length() -> None:
    phases = Counter(staggered(60)(f"node-{number}") for number in range(6000))
    assert set(phases) == set(range(60))
    assert max(phases.values()) < 200


def test_a_window_is_closed_with_the_report_that_begins_the_next_unless_one_is_missing() -> None:
    seconds = 60
    at = EPOCH + timedelta(seconds=2)
    waiting = Waiting(over_at=at - timedelta(seconds=5), silent_since=EPOCH - timedelta(days=1), holes_since=at)
    known = KnownNode("n", last_report_at=at, newest_at=at, closed_until=EPOCH - timedelta(seconds=60))
    assert close_limit(known, waiting, seconds) == EPOCH
    hole = replace(known, hole_from=EPOCH - timedelta(seconds=70), hole_seen_at=at - timedelta(minutes=1))
    assert close_limit(hole, waiting, seconds) is None
    later = replace(waiting, over_at=EPOCH + timedelta(seconds=1))
    assert close_limit(hole, later, seconds) == EPOCH
    assert close_limit(known, waiting, seconds, phase=30) == EPOCH - timedelta(seconds=30)
