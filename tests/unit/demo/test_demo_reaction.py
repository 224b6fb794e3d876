"""From polled quotas and pressures to the three times that matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo import schedule
from slackwater.demo.reaction import ObservedQuotaChange, PressureSample, reaction

ORIGINALS: dict[str, int | None] = {"a": None, "b": 2000}
SURGE = (100.0, 110.0)


def pressures(*some: float) -> list[PressureSample]:
    return [PressureSample(100.0 + n, 101.0 + n, value) for n, value in enumerate(some)]


def test_lowered_relieved_and_restored_are_timed_from_the_surge() -> None:
    changes = [
        ObservedQuotaChange(101.5, "a", 500),
        ObservedQuotaChange(102.0, "b", 100),
        ObservedQuotaChange(113.0, "b", 2000),
        ObservedQuotaChange(114.0, "a", None),
    ]
    found = reaction(changes, pressures(0.3, 0.3, 0.2, 0.02, 0.02), ORIGINALS, SURGE, 0.05)
    assert (found.seconds_to_lowered, found.seconds_to_relief, found.seconds_to_restored) == (1.5, 4.0, 4.0)


def test_without_a_lowered_quota_nothing_happened() -> None:
    found = reaction([], pressures(0.3), ORIGINALS, SURGE, 0.05)
    assert (found.seconds_to_lowered, found.seconds_to_relief, found.seconds_to_restored) == (None, None, None)


def test_a_raise_is_not_a_lowering() -> None:
    changes = [
        ObservedQuotaChange(90.0, "b", 500),
        ObservedQuotaChange(101.0, "b", 900),
        ObservedQuotaChange(103.0, "b", 400),
    ]
    assert reaction(changes, [], ORIGINALS, SURGE, 0.05).seconds_to_lowered == 3.0


def test_a_quota_that_was_low_already_and_stays_counts_as_no_time() -> None:
    assert reaction([ObservedQuotaChange(95.0, "a", 50)], [], ORIGINALS, SURGE, 0.05).seconds_to_lowered == 0.0


def test_low_before_but_back_in_time_does_not_count() -> None:
    changes = [ObservedQuotaChange(90.0, "a", 50), ObservedQuotaChange(95.0, "a", None)]
    assert reaction(changes, [], ORIGINALS, SURGE, 0.05).seconds_to_lowered is None


def test_half_restored_is_not_restored() -> None:
    changes = [
        ObservedQuotaChange(101.0, "a", 50),
        ObservedQuotaChange(101.0, "b", 50),
        ObservedQuotaChange(112.0, "a", None),
    ]
    assert reaction(changes, [], ORIGINALS, SURGE, 0.05).seconds_to_restored is None


def test_relief_long_after_the_surge_is_not_relief() -> None:
    late = [PressureSample(115.0, 116.0, 0.0)]
    assert reaction([ObservedQuotaChange(101.0, "a", 50)], late, ORIGINALS, SURGE, 0.05).seconds_to_relief is None


@given(st.lists(st.floats(0, 1), max_size=50))
def test_the_waterline_stays_within_its_bounds(alone: list[float]) -> None:
    assert 0.02 <= schedule.waterline(alone) <= 0.10


def test_the_waterline_follows_the_quiet_seconds_not_the_disturbed_ones() -> None:
    assert schedule.waterline([0.01, 0.012, 0.011, 0.4]) < 0.035


@given(st.integers(1, 64), st.floats(0.001, 0.1), st.floats(0.0, 1.0))
def test_a_compared_surge_leaves_batch_a_third_of_what_it_wants_where_the_machine_is_large_enough(
    cpus: int, cost: float, others: float
) -> None:
    kept, wanted = 0.76 * cpus, 0.42 * cpus
    found = schedule.compared(cpus, cost, others, kept, wanted)
    prod = found.surge * cost
    assert 0.30 * cpus - 1e-9 <= prod <= 0.60 * cpus + 1e-9
    if 0.30 * cpus < kept - others - wanted / 3 < 0.60 * cpus:
        assert kept - others - prod == pytest.approx(wanted / 3)
    assert found.rest * cost / cpus == pytest.approx(schedule.REST_LOAD)
