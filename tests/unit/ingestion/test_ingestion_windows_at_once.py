"""The quick way to close windows gives what the readable one gives."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.clock import EPOCH
from tests.support.reports import pod_usage, report

from slackwater.ingestion.adapters import binary
from slackwater.ingestion.domain.columns import columns_of, rows_of, table_of
from slackwater.ingestion.domain.reports import HistoryRow, MeasuredApp, MeasuredPod, Report, UsageSeries
from slackwater.ingestion.domain.windowing import Merged, aligned, close_windows, merge, staggered
from slackwater.ingestion.domain.windowing_columnar import close_windows_columnar, merge_columnar
from slackwater.ingestion.usecases.report_mapping import history_from, report_from
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos

values = st.one_of(st.integers(0, 20), st.integers(0, 2**50))
samples = st.one_of(st.just(5), st.integers(0, 12), st.integers(0, 1_000_000))
series = st.builds(
    lambda points, avg, count: UsageSeries(avg, *sorted(points), points[0], count),
    st.lists(values, min_size=5, max_size=5),
    values,
    samples,
)


@given(st.lists(st.tuples(st.integers(0, 6), series), min_size=1, max_size=60))
@example([(0, UsageSeries(0, 0, 0, 0, 0, 0, 0, 0))])
@example([(0, UsageSeries(*[2**52] * 7, 1)), (0, UsageSeries(1, 1, 1, 1, 1, 1, 1, 1))])
@example([(0, UsageSeries(*[2**50] * 7, 1_000_000))] * 3)
@example([(0, UsageSeries(3, 3, 3, 3, 3, 3, 3, 1))] * 500)
def test_groups_are_merged_as_one_by_one(items: list[tuple[int, UsageSeries]]) -> None:
    found = merge_columnar(table_of([one for _, one in items]), np.array([group for group, _ in items]), 7)
    for group, merged in enumerate(found.tolist()):
        assert Merged(*merged) == merge([one for own, one in items if own == group])


def pod(number: int) -> Pod:
    tier = tuple(Tier)[number % len(Tier)]
    return Pod(
        uid=f"uid-{number * 7 % 10}",
        name=f"pod-{number}",
        namespace="shop",
        workload="shop/web",
        tier=tier,
        qos=default_qos(tier),
        priority=DEFAULT_PRIORITY[tier],
        request=Resources(100, 100),
        started_at=EPOCH,
    )


measured = st.tuples(st.integers(0, 5), series, series).map(lambda one: MeasuredPod(pod(one[0]), one[1], one[2]))
pods = st.lists(measured, max_size=4, unique_by=lambda one: one.pod.uid).map(tuple)

app = st.tuples(st.sampled_from("xyz"), st.sampled_from(Tier), series, series).map(lambda one: MeasuredApp(*one))
apps = st.lists(app, max_size=3, unique_by=lambda one: one.name).map(tuple)


@st.composite
def histories(draw: st.DrawFn) -> list[HistoryRow]:
    found = []
    for sequence in range(1, draw(st.integers(0, 15)) + 1):
        sampled_at = EPOCH + timedelta(seconds=draw(st.floats(0, 200)))
        system = draw(st.booleans())
        report = Report(
            node=draw(st.sampled_from("abc")),
            boot_epoch="boot-1",
            sequence=sequence,
            sampled_at=sampled_at,
            window_seconds=5.0,
            cpu=draw(series),
            memory=draw(series),
            system_cpu=draw(series) if system else None,
            system_memory=draw(series) if system else None,
            pods=draw(pods),
            host_apps=draw(st.just(()) | apps),
        )
        found.append(HistoryRow(report, sampled_at, draw(st.integers(-1, 2)), late=draw(st.integers(0, 5)) == 0))
    return found


@given(histories(), st.data())
def test_rows_become_columns_and_rows_again(rows: list[HistoryRow], data: st.DataObject) -> None:
    assert rows_of(columns_of(rows)) == rows
    kept = sorted(data.draw(st.sets(st.sampled_from(range(len(rows)))))) if rows else []
    some = columns_of(rows).only({place: replace(columns_of(rows).rows[place], gap_delta=9) for place in kept})
    assert rows_of(some) == [replace(rows[place], gap_delta=9) for place in kept]


def test_events_become_the_columns_of_their_reports() -> None:
    reports = [
        report("n", 1, EPOCH, pods=[pod_usage("a"), pod_usage("b", Tier.BATCH, 7)]),
        report("m", 2, EPOCH),
        report("n", 3, EPOCH, pods=[pod_usage("c")]),
    ]
    found = history_from(reports, EPOCH)
    assert rows_of(found) == [HistoryRow(report_from(data), EPOCH) for data in reports]
    assert [len(pods) for pods in found.described()] == [2, 0, 1]


@given(histories(), st.sampled_from([5, 60]), st.booleans())
def test_windows_at_once_are_those_of_the_reference(rows: list[HistoryRow], seconds: int, apart: bool) -> None:
    phase = staggered(seconds) if apart else aligned
    found = close_windows_columnar(columns_of(rows), seconds, phase)
    assert found == close_windows(rows, seconds, phase)
    assert [list(window.tiers) for window in found] == [list(w.tiers) for w in close_windows(rows, seconds, phase)]
    plain = [amount for window in found for _, amounts in window.pods for amount in (amounts.cpu.max, amounts.cpu.p90)]
    assert all(type(amount) is int for amount in plain)


@given(st.lists(st.lists(series, min_size=1, max_size=4), min_size=1, max_size=3))
def test_arrays_come_back_from_the_wire_as_they_went(matrices: list[list[UsageSeries]]) -> None:
    head = bytes(28)  # dimensions, whether with nulls, type, and both sizes with their first number
    found = binary.series_of([head + binary._numbers(table_of(rows), ">i8") for rows in matrices])
    assert [UsageSeries(*one) for one in found.tolist()] == [one for rows in matrices for one in rows]


def test_a_pod_that_was_forgotten_is_left_out() -> None:
    one = UsageSeries(*[1] * 8)
    report = Report("a", "boot-1", 1, EPOCH, 5.0, one, one, pods=(MeasuredPod(pod(1), one, one),))
    history = columns_of([HistoryRow(report, EPOCH)])
    none = columns_of([]).pods
    (window,) = close_windows_columnar(replace(history, pods=none), 60)
    assert (window.pods, window.tiers, window.reports) == ((), {}, 1)
