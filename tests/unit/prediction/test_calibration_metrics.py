"""What partitions say of a pool is added up, and given away with the partition."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from tests.support.clock import EPOCH

from slackwater.prediction.metrics import CalibrationMetrics
from slackwater.prediction.ports import MeasuredRisk
from slackwater.telemetry.metrics import Meters

CPU = {"pool": "gold", "resource": "cpu"}


class Shown:
    """The metrics of one process, by short name."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.meter: CalibrationMetrics = CalibrationMetrics(Meters(self.registry))

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"slackwater_prediction_{name}", labels)


def test_coverage_is_that_of_all_partitions_by_the_days_that_stand_behind_them() -> None:
    shown = Shown()
    shown.meter.measured(0, "gold", "cpu", MeasuredRisk(0.01, 0.02, 300.0, 0.3))
    shown.meter.measured(1, "gold", "cpu", MeasuredRisk(0.01, 0.0, 100.0, 0.1))
    shown.meter.measured(1, "gold", "memory", MeasuredRisk(None, 0.5, 2.0, None))
    assert shown.value("judged_seconds", **CPU) == 400 * 86_400
    assert shown.value("violated_seconds", **CPU) == pytest.approx(6 * 86_400)
    assert shown.value("coverage_ratio", **CPU) == pytest.approx(1 - 6 / 400)
    assert shown.value("stated_violation_ratio", **CPU) == 0.01
    assert shown.value("knob_ratio", **CPU) == 0.3
    assert shown.value("stated_violation_ratio", pool="gold", resource="memory") is None
    shown.meter.dropped(0)
    assert shown.value("coverage_ratio", **CPU) == 1.0
    assert shown.value("knob_ratio", **CPU) == 0.1


def test_before_a_window_is_finished_there_is_no_coverage_and_a_rate_that_is_withdrawn_goes() -> None:
    shown = Shown()
    shown.meter.measured(0, "gold", "cpu", MeasuredRisk(0.01, None, 0.0, 0.3))
    assert shown.value("coverage_ratio", **CPU) is None
    assert shown.value("judged_seconds", **CPU) == 0
    shown.meter.measured(0, "gold", "cpu", MeasuredRisk(None, None, 0.0, None))
    assert shown.value("stated_violation_ratio", **CPU) is None
    assert shown.value("knob_ratio", **CPU) is None


def test_predictions_are_counted_by_cause_and_the_newest_has_its_time() -> None:
    shown = Shown()
    shown.meter.published("first", 3, EPOCH)
    shown.meter.published("diff", 2, EPOCH + timedelta(seconds=20))
    shown.meter.published("diff", 1, EPOCH + timedelta(seconds=40))
    assert shown.value("published_total", reason="diff") == 3
    assert shown.value("newest_timestamp_seconds") == EPOCH.timestamp() + 40


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 50), st.floats(0, 1)), max_size=20))
def test_the_cold_share_is_the_mean_over_all_nodes(said: list[tuple[int, int, float]]) -> None:
    shown = Shown()
    for partition, nodes, share in said:
        shown.meter.cold(partition, "gold", nodes, share)
    last = {partition: (nodes, share) for partition, nodes, share in said}
    nodes = sum(count for count, _ in last.values())
    expected = sum(count * share for count, share in last.values()) / nodes if nodes else 0.0
    assert (shown.value("cold_start_ratio", pool="gold") or 0.0) == pytest.approx(expected)
