"""From samples to windows: rates, pressure shares, what the system used; unknown is never zero."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from agent_fakes import pod
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.agent.domain.observation import Instant, Observation
from slackwater.agent.domain.rates import SHORTEST_SECONDS, ShareWindow, milli_of, remainder
from slackwater.agent.domain.samples import PodSample, PsiTotals, RawSample
from slackwater.agent.domain.waterlines import Waterline, above, due
from slackwater.model.tiers import Tier

SECOND = 1_000_000_000


def sample(at: float, node_ns: int | None, *pods: PodSample, prod_us: int | None = None) -> RawSample:
    return RawSample(
        at,
        EPOCH + timedelta(seconds=at),
        node_cpu_busy_ns=node_ns,
        node_memory_bytes=1000,
        tier_psi={Tier.PROD: PsiTotals(cpu_some_us=prod_us)},
        pods=pods,
    )


def counters(uid: str, cpu_ns: int | None, memory: int | None = 100) -> PodSample:
    return PodSample(uid, cpu_ns, memory, PsiTotals(0, 0, 0), 10, 0)


def test_rates_need_two_samples_and_the_system_is_what_pods_did_not_use() -> None:
    watched = Observation()
    a = pod("a")
    watched.add(sample(0, 0, counters("a", 0)), [a])
    assert watched.close([a]) is None
    instant = watched.add(sample(1, 3 * SECOND, counters("a", 1 * SECOND), prod_us=0), [a])
    assert instant.node_cpu_milli == 3000
    window = watched.close([a])
    assert window is not None
    assert (window.node_cpu.last, window.system_cpu.last, window.pods[0].cpu.last) == (3000, 2000, 1000)
    assert (window.system_memory.last, window.seconds) == (900, 1)


def test_an_instant_between_two_samples_has_cpu_pressure_and_memory_and_is_not_stored() -> None:
    watched = Observation()
    assert watched.since(sample(0.5, SECOND, prod_us=0)) == Instant()
    watched.add(sample(0, 0, prod_us=0), [])
    look = watched.since(sample(0.5, SECOND, prod_us=100_000))
    assert (look.node_cpu_milli, look.prod_cpu_pressure) == (2000, pytest.approx(0.2))
    assert look.node_memory_bytes == 1000
    unknown = replace(sample(0.5, None), node_memory_bytes=None)
    assert watched.since(unknown) == Instant(), "unknown is not nothing"
    whole = watched.add(sample(1, SECOND, prod_us=100_000), [])
    assert (whole.node_cpu_milli, whole.prod_cpu_pressure) == (1000, pytest.approx(0.1))


def test_an_unknown_part_makes_the_system_unknown() -> None:
    watched = Observation()
    a, b = pod("a"), pod("b")
    watched.add(sample(0, 0, counters("a", 0), counters("b", None, None)), [a, b])
    watched.add(sample(1, 2 * SECOND, counters("a", SECOND), counters("b", None, None)), [a, b])
    window = watched.close([a, b])
    assert window is not None
    assert window.system_cpu.count == 0
    assert window.system_memory.count == 0
    assert window.pods[0].cpu.last == 1000
    assert window.pods[1].cpu.count == 0


def test_a_pod_that_vanished_makes_the_system_unknown_for_that_interval_only() -> None:
    watched = Observation()
    a = pod("a")
    watched.add(sample(0, 0, counters("a", 0)), [a])
    watched.add(sample(1, SECOND), [])
    watched.add(sample(2, 3 * SECOND), [])
    window = watched.close([])
    assert window is not None
    assert (window.system_cpu.count, window.system_cpu.last, window.pods) == (1, 2000, ())


def test_a_new_pod_counts_from_its_start_and_an_old_one_from_its_second_sample() -> None:
    watched = Observation()
    new = replace(pod("new"), started_at=EPOCH + timedelta(seconds=0.5))
    old = replace(pod("old"), started_at=EPOCH - timedelta(hours=1))
    watched.add(sample(0, 0), [])
    watched.add(sample(1, SECOND, counters("new", SECOND // 2), counters("old", 99 * SECOND)), [new, old])
    window = watched.close([new, old])
    assert window is not None
    assert [(item.cpu.count, item.cpu.last) for item in window.pods] == [(1, 500), (0, 0)]


def test_throttling_is_the_share_of_stopped_periods() -> None:
    watched = Observation()
    a = pod("a")
    watched.add(sample(0, 0, PodSample("a", 0, 0, PsiTotals(), 10, 5)), [a])
    watched.add(sample(1, 0, PodSample("a", 0, 0, PsiTotals(), 20, 9)), [a])
    window = watched.close([a])
    assert window is not None
    assert window.pods[0].throttled_ratio == pytest.approx(0.4)


@example(0, 1, 5e-324)
@given(st.none() | st.integers(0, 10**15), st.none() | st.integers(0, 10**15), st.floats(-1, 10))
def test_a_rate_is_never_negative_and_unknown_stays_unknown(
    before: int | None, after: int | None, seconds: float
) -> None:
    found = milli_of(before, after, seconds)
    if before is None or after is None or after < before or seconds < SHORTEST_SECONDS:
        assert found is None
    else:
        assert found is not None
        assert found >= 0


@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**6)))
def test_the_remainder_is_floored_at_zero(whole: int, parts: list[int]) -> None:
    assert remainder(whole, list(parts)) == max(0, whole - sum(parts))
    assert remainder(whole, [*parts, None]) is None
    assert remainder(None, list(parts)) is None


@given(st.lists(st.tuples(st.integers(0, 2_000_000), st.floats(0.1, 5)), min_size=1))
def test_pressure_is_a_share_of_time(intervals: list[tuple[int, float]]) -> None:
    window = ShareWindow()
    total = 0
    for waited, seconds in intervals:
        window.add(total, total + waited, seconds)
        total += waited
    assert window.last is not None
    assert window.average is not None
    assert window.highest is not None
    assert 0 <= window.last <= window.highest <= 1
    assert window.average <= window.highest + 1e-9


def test_an_unknown_interval_has_no_last_pressure() -> None:
    window = ShareWindow()
    window.add(0, 500_000, 1.0)
    window.add(None, 1_000_000, 1.0)
    assert (window.last, window.average) == (None, 0.5)


LINES = (Waterline("prod_cpu_pressure", 0.2), Waterline("node_cpu_usage_ratio", 0.8), Waterline("unheard_of", 0.0))


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        (Instant(3200, 0.2), False),
        (Instant(3201, 0.0), True),
        (Instant(0, 0.21), True),
        (Instant(None, None), False),
    ],
)
def test_a_waterline_is_crossed_above_its_value_only(instant: Instant, expected: bool) -> None:
    assert bool(above(LINES, instant, capacity_milli=4000)) is expected


@pytest.mark.parametrize(
    ("is_above", "throttled", "changed", "since", "expected"),
    [
        (False, False, False, 4.9, None),
        (False, False, False, 5.0, "interval"),
        (False, True, False, 1.0, "interval"),
        (True, False, False, 1.0, "waterline"),
        (True, True, True, 5.0, "waterline"),
        (False, False, True, 1.0, "pods"),
        (False, True, True, 1.0, "interval"),
    ],
)
def test_when_a_report_is_due(
    is_above: bool, throttled: bool, changed: bool, since: float, expected: str | None
) -> None:
    trigger = due(
        is_above=is_above, throttled=throttled, changed=changed, since_last_seconds=since, interval_seconds=5.0
    )
    assert trigger == expected
