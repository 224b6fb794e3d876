"""Fresh, stale, lost: by age alone, and silence of ours is not theirs."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.ingestion.domain.liveness import LivenessLimits, after_silence, liveness_of
from slackwater.model.nodes import Liveness

LIMITS = LivenessLimits(interval_seconds=5, stale_intervals=3, lost_seconds=60)
ORDER = [Liveness.FRESH, Liveness.STALE, Liveness.LOST]


def after(seconds: float) -> Liveness:
    return liveness_of(EPOCH, EPOCH + timedelta(seconds=seconds), LIMITS)


def test_the_limits_themselves_are_still_well() -> None:
    assert [after(seconds) for seconds in (0, 15, 15.001, 60, 60.001)] == [
        Liveness.FRESH, Liveness.FRESH, Liveness.STALE, Liveness.STALE, Liveness.LOST,
    ]  # fmt: skip


@given(st.floats(0, 1000), st.floats(0, 1000))
def test_silence_never_makes_it_better(one: float, two: float) -> None:
    assert ORDER.index(after(min(one, two))) <= ORDER.index(after(max(one, two)))


@given(st.sampled_from(ORDER), st.floats(0, 1000), st.floats(-1000, 1000))
def test_the_timer_only_ever_makes_it_worse(previous: Liveness, age: float, listening: float) -> None:
    now = EPOCH + timedelta(seconds=age)
    found = after_silence(previous, EPOCH, now, LIMITS, EPOCH + timedelta(seconds=listening))
    assert ORDER.index(found) >= ORDER.index(previous)


def test_silence_counts_only_from_when_we_listened() -> None:
    now = EPOCH + timedelta(seconds=100)
    assert liveness_of(EPOCH, now, LIMITS, now - timedelta(seconds=10)) is Liveness.FRESH
    assert liveness_of(EPOCH, now, LIMITS, now - timedelta(seconds=20)) is Liveness.STALE


def test_lost_before_stale_would_make_no_sense_and_is_not_done() -> None:
    odd = LivenessLimits(interval_seconds=30, stale_intervals=3, lost_seconds=10)
    assert liveness_of(EPOCH, EPOCH + timedelta(seconds=80), odd) is Liveness.FRESH
    assert liveness_of(EPOCH, EPOCH + timedelta(seconds=91), odd) is Liveness.LOST
