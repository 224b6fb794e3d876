"""The judgement of figures: scaled by the speed beside them, and none where the host took too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bench import figures
from tests.bench.verdict import Conditions, Scale, Target, Verdict, exit_status, judge

FULL = Conditions(before=5.0e6, after=5.0e6, steal=0.0)
HALF = Conditions(before=2.0e6, after=3.0e6, steal=0.0)
TIME = Target("settled p99", 3.0, 2.0, "s", Scale.TIME)
RATE = Target("stored", 1200, 2000, "/s", Scale.RATE)
COUNT = Target("lost", 1, 0)


def test_a_slower_machine_may_take_longer_and_do_less_but_not_lose_more() -> None:
    assert (FULL.speed, HALF.speed) == (1.0, 0.5)
    assert TIME.limit_at(HALF.speed) == 4.0
    assert RATE.limit_at(HALF.speed) == 1000.0
    assert COUNT.limit_at(HALF.speed) == 0
    assert judge([TIME], FULL).verdict is Verdict.MISSED
    assert judge([RATE], FULL).verdict is Verdict.MISSED
    assert judge([TIME, RATE], HALF).verdict is Verdict.MET
    assert judge([TIME, RATE, COUNT], HALF) == judge([COUNT], HALF)


def test_a_faster_machine_is_held_to_more() -> None:
    fast = Conditions(10.0e6, 10.0e6, 0.0)
    assert judge([Target("x", 1.1, 2.0, "s", Scale.TIME)], fast).verdict is Verdict.MISSED
    assert judge([Target("x", 3000, 2000, "/s", Scale.RATE)], fast).verdict is Verdict.MISSED


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.sampled_from([Scale.TIME, Scale.RATE]), st.floats(0.1, 4))
def test_the_verdict_is_that_of_the_figure_scaled_to_the_reference(
    seen: float, limit: float, scale: Scale, speed: float
) -> None:
    at_reference = seen * speed if scale is Scale.TIME else seen / speed
    if abs(at_reference / limit - 1) > 1e-9:
        scaled = Target("x", at_reference, limit, scale=scale).is_met(1.0)
        assert Target("x", seen, limit, scale=scale).is_met(speed) is scaled


@pytest.mark.parametrize(("steal", "verdict"), [(0.03, Verdict.MET), (0.0301, Verdict.NOT_MEASURABLE)])
def test_more_than_three_percent_of_steal_says_nothing(steal: float, verdict: Verdict) -> None:
    found = judge([Target("x", 1.0, 2.0)], Conditions(5.0e6, 5.0e6, steal))
    assert found.verdict is verdict
    assert ("steal" in found.why) is (verdict is Verdict.NOT_MEASURABLE)


def test_what_was_not_seen_is_missed_and_at_least_holds_for_shares() -> None:
    assert judge([Target("p99", None, 2.0, "s", Scale.TIME)], FULL).why.startswith("p99 nothing seen")
    assert not Target("stored", 0.98, 0.99, at_least=True).is_met(0.5)
    assert Target("stored", 0.99, 0.99, at_least=True).is_met(0.5)


MET, MISSED, NOT = Verdict.MET, Verdict.MISSED, Verdict.NOT_MEASURABLE


@pytest.mark.parametrize(
    ("verdicts", "failed", "status"),
    [
        ([], False, 0),
        ([MET, MET], False, 0),
        ([MET, NOT], False, 3),
        ([NOT, MISSED, MET], False, 1),
        ([NOT], True, 1),
        ([], True, 1),
    ],
)
def test_the_exit_status_is_the_worst_that_is_known(verdicts: list[Verdict], failed: bool, status: int) -> None:
    assert exit_status(verdicts, failed=failed) == status


def test_a_figure_is_stored_and_printed_with_conditions_and_scaled_limit() -> None:
    stored = figures.judged({"nodes": 3, "targets": (TIME, COUNT)}, HALF)
    assert stored["verdict"] == "missed"
    assert stored["why"] == "lost 1, target ≤ 0 at this speed"
    assert stored["conditions"] == {"before": 2.0e6, "after": 3.0e6, "steal": 0.0, "calibration": 2_500_000}
    found = {"commit": "abc", "exit": 1, "fresh": stored, "idle": figures.judged({"cpu": 1}, HALF)}
    found["peers"] = figures.judged({"ratios": [{"told": "sum: 3.0 x"}]}, HALF)
    assert figures.verdicts(found) == [Verdict.MISSED]
    assert "missed          fresh" in figures.table(found)
    assert "settled p99 3 s (≤ 4 s here)" in figures.table(found)
    rows = figures.markdown(found).splitlines()[2:]
    assert rows[0] == (
        "| `fresh` | settled p99 ≤ 2 s; lost ≤ 0 | settled p99 3 s; lost 1: **missed** | 2.5 M | 0.0% | abc |"
    )
    assert rows[1] == "| `peers` |  | sum: 3.0 x | 2.5 M | 0.0% | abc |"
    assert len(rows) == 2
    failed = found | {"broken": {"failed": "OSError: no traces", "machine": {}}}
    assert "FAILED          broken               OSError: no traces" in figures.table(failed)
