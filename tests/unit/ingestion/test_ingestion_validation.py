"""Every report gets a verdict; what is wrong has one reason, and nothing raises."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH
from tests.support.reports import GIB, pod_usage, report

from slackwater.ingestion.domain.reports import Arrival, KnownNode, Pressures, Report, SequenceTrack, UsageSeries
from slackwater.ingestion.domain.validation import Accepted, Refusal, RefusedReport, ReportLimits, judge
from slackwater.ingestion.usecases.report_mapping import report_from
from slackwater.model.quantities import Resources

LIMITS = ReportLimits(ahead_seconds=30, behind_seconds=900)
KNOWN = KnownNode("n", capacity=Resources(4000, 8 * GIB), track=SequenceTrack("boot-1", ("boot-0",), 5))
GOOD = report_from(report("n", 6, EPOCH, pods=[pod_usage("a"), pod_usage("b")]))


def verdict(changed: Report, known: KnownNode = KNOWN, key: str = "n") -> Accepted | RefusedReport:
    return judge(Arrival(changed, key, EPOCH), known, LIMITS)


def reason(changed: Report, known: KnownNode = KNOWN, key: str = "n") -> Refusal:
    found = verdict(changed, known, key)
    assert isinstance(found, RefusedReport), found
    assert found.detail
    return found.reason


def test_a_good_report_is_accepted() -> None:
    found = verdict(GOOD)
    assert found == Accepted(SequenceTrack("boot-1", ("boot-0",), 6), 0)


def test_a_node_that_was_never_described_is_believed_within_absolute_bounds() -> None:
    nobody = KnownNode("n")
    high = replace(GOOD, cpu=UsageSeries(*[9_000_000] * 7, 5))
    assert isinstance(verdict(high, nobody), Accepted)
    assert reason(high) is Refusal.ABSURD
    assert reason(replace(GOOD, cpu=UsageSeries(*[10_000_001] * 7, 5)), nobody) is Refusal.ABSURD


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(value: float) -> None:
    assert reason(replace(GOOD, window_seconds=value)) is Refusal.NOT_FINITE
    assert reason(replace(GOOD, pressures=Pressures(prod_cpu_last=value))) is Refusal.NOT_FINITE
    pods = (GOOD.pods[0]._replace(throttled_ratio=value),)
    assert reason(replace(GOOD, pods=pods)) is Refusal.NOT_FINITE


def test_what_is_negative_is_refused() -> None:
    for position in range(8):
        numbers = [100] * 7 + [5]
        numbers[position] = -1
        assert reason(replace(GOOD, memory=UsageSeries(*numbers))) is Refusal.NEGATIVE
    assert reason(replace(GOOD, window_seconds=0)) is Refusal.NEGATIVE
    assert reason(replace(GOOD, pressures=Pressures(node_io_avg=-0.1))) is Refusal.NEGATIVE
    assert reason(replace(GOOD, pods=(GOOD.pods[0]._replace(cpu_limit_milli=-1),))) is Refusal.NEGATIVE


def test_what_is_absurd_is_refused_and_twice_the_capacity_is_not_yet() -> None:
    assert isinstance(verdict(replace(GOOD, cpu=UsageSeries(*[8000] * 7, 5))), Accepted)
    assert reason(replace(GOOD, cpu=UsageSeries(*[8001] * 7, 5))) is Refusal.ABSURD
    assert reason(replace(GOOD, memory=UsageSeries(*[16 * GIB + 1] * 7, 5))) is Refusal.ABSURD
    assert reason(replace(GOOD, pressures=Pressures(node_cpu_avg=2.0))) is Refusal.ABSURD
    assert reason(replace(GOOD, window_seconds=86400)) is Refusal.ABSURD


def test_a_clock_too_far_off_is_refused_on_either_side() -> None:
    assert isinstance(verdict(replace(GOOD, sampled_at=EPOCH + timedelta(seconds=30))), Accepted)
    assert reason(replace(GOOD, sampled_at=EPOCH + timedelta(seconds=31))) is Refusal.CLOCK_SKEW
    assert isinstance(verdict(replace(GOOD, sampled_at=EPOCH - timedelta(seconds=900))), Accepted)
    assert reason(replace(GOOD, sampled_at=EPOCH - timedelta(seconds=901))) is Refusal.CLOCK_SKEW


def test_a_body_that_names_another_node_than_its_subject_is_refused() -> None:
    assert reason(GOOD, key="m") is Refusal.WRONG_NODE


def test_repeats_are_refused_and_reports_of_a_replaced_agent_too() -> None:
    assert reason(replace(GOOD, sequence=5)) is Refusal.REPLAYED_SEQUENCE
    assert reason(replace(GOOD, sequence=1)) is Refusal.REPLAYED_SEQUENCE
    assert reason(replace(GOOD, boot_epoch="boot-0", sequence=99)) is Refusal.REPLAYED_SEQUENCE


@pytest.mark.parametrize(
    "changed",
    [
        replace(GOOD, boot_epoch=""),
        replace(GOOD, boot_epoch="x\x00y"),
        replace(GOOD, boot_epoch="x" * 600),
        replace(GOOD, sequence=0),
        replace(GOOD, sequence=2**60),
        replace(GOOD, sampled_at=EPOCH.replace(tzinfo=None)),
        replace(GOOD, pods=(GOOD.pods[0], GOOD.pods[0])),
        replace(GOOD, pods=(GOOD.pods[0]._replace(pod=replace(GOOD.pods[0].pod, labels={"a": "\x00"})),)),
        replace(
            GOOD, pods=(GOOD.pods[0]._replace(pod=replace(GOOD.pods[0].pod, started_at=EPOCH.replace(tzinfo=None))),)
        ),
        replace(GOOD, cpu=UsageSeries(100, 200, 100, 200, 200, 200, 200, 5)),
        replace(GOOD, cpu=UsageSeries(300, 200, 200, 200, 200, 200, 200, 5)),
    ],
)
def test_what_has_no_form_is_malformed(changed: Report) -> None:
    assert reason(changed) is Refusal.MALFORMED


numbers = st.one_of(st.integers(-(2**70), 2**70), st.integers(0, 5000))
series = st.builds(UsageSeries, *[numbers] * 8)
shares = st.one_of(st.none(), st.floats())


@given(
    cpu=series,
    memory=series,
    window=st.floats(),
    sequence=numbers,
    pressure=shares,
    epoch=st.text(max_size=5),
    sampled_at=st.datetimes(),
    key=st.sampled_from(["n", "m"]),
)
def test_whatever_comes_there_is_a_verdict_and_what_is_accepted_can_be_stored(
    cpu, memory, window, sequence, pressure, epoch, sampled_at, key
) -> None:
    for moment in (sampled_at, sampled_at.replace(tzinfo=EPOCH.tzinfo), EPOCH):
        changed = replace(
            GOOD, cpu=cpu, memory=memory, window_seconds=window, sequence=sequence, boot_epoch=epoch,
            sampled_at=moment, pressures=Pressures(node_cpu_avg=pressure),
        )  # fmt: skip
        found = verdict(changed, key=key)
        if isinstance(found, Accepted):
            assert key == "n"
            assert all(0 <= number < 2**63 for number in (*cpu, *memory, sequence))
            assert 0 < window <= 3600
            assert changed.midpoint_at.tzinfo is not None
            assert "\x00" not in epoch
