"""Lag of a reader, in seconds of its own work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.bus.consume.skip_to_latest import BATCHES_REMEMBERED, LEAST_BATCHES, Throughput


def test_nothing_is_said_before_enough_batches_were_seen() -> None:
    pace = Throughput(10)
    for _ in range(LEAST_BATCHES - 1):
        pace.handled(10, 1.0)
    assert pace.behind_seconds(1_000_000) == 0
    pace.handled(10, 1.0)
    assert pace.behind_seconds(100) == 10.0


def test_small_batches_say_nothing() -> None:
    pace = Throughput(10)
    for _ in range(LEAST_BATCHES):
        pace.handled(9, 1.0)
    assert pace.behind_seconds(100) == 0


@given(st.floats(0.001, 1), st.lists(st.floats(1, 100), max_size=BATCHES_REMEMBERED - LEAST_BATCHES))
def test_batches_that_had_to_wait_do_not_make_us_slow(usual: float, waits: list[float]) -> None:
    pace = Throughput(1)
    for seconds in [usual] * LEAST_BATCHES + [usual + wait for wait in waits]:
        pace.handled(1, seconds)
    assert pace.behind_seconds(7) == 7 * usual


def test_a_consumer_that_became_slow_is_detected_after_a_while() -> None:
    pace = Throughput(1)
    for _ in range(LEAST_BATCHES):
        pace.handled(1, 0.1)
    for _ in range(BATCHES_REMEMBERED):
        pace.handled(1, 2.0)
    assert pace.behind_seconds(3) == 6.0
