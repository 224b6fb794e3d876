from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.backtest.domain.measures import ErrorDistribution, ErrorTally, ModelVerdict, Spread


def test_every_measure_by_hand() -> None:
    """Machine 0: short by half once in four moments. Machine 1: never; it is empty half of the time."""
    tally = ErrorTally(2)
    for peak, came, limits in [
        ([10, 4], [20, 4], [40, 8]),  # 20 came, 10 were predicted: short by half of what came
        ([20, 0], [20, 0], [40, 0]),  # met exactly: no violation; machine 1 is empty
        ([30, 0], [20, 0], [40, 0]),
        ([20, 4], [16, 1], [40, 8]),
    ]:
        tally.add(np.array(peak, float), np.array(came, float), np.array(limits, float))
    scores = tally.scores()
    assert scores.violation.tolist() == [1 / 4, 0]
    assert scores.severity.tolist() == [0.5 / 4, 0]
    assert scores.severity_when_violated == 0.5
    assert scores.savings.tolist() == [1 - 80 / 160, 1 - 8 / 16]
    assert scores.cell_savings == 1 - 88 / 176
    assert scores.instants == 6


def test_the_cell_saves_by_amounts_and_not_by_machines() -> None:
    tally = ErrorTally(2)
    tally.add(np.array([90.0, 1.0]), np.zeros(2), np.array([100.0, 10.0]))
    assert tally.scores().cell_savings == pytest.approx(1 - 91 / 110)


def test_a_peak_that_is_no_number_is_a_defect_and_no_success() -> None:
    with pytest.raises(ValueError, match="not a number"):
        ErrorTally(1).add(np.array([np.nan]), np.array([5.0]), np.array([9.0]))


def test_a_difference_of_rounding_is_no_violation() -> None:
    tally = ErrorTally(1)
    tally.add(np.array([0.1 + 0.2]), np.array([0.3 + 4e-16]), np.array([1.0]))
    tally.add(np.array([0.3]), np.array([0.3 + 1e-6]), np.array([1.0]))
    assert tally.scores().violation.tolist() == [0.5]


def test_quantiles_are_over_machines_and_means_over_placements() -> None:
    found = ErrorDistribution.of([np.arange(11.0), np.arange(11.0) + 2])
    assert (found.mean, found.p10, found.p50, found.p90, found.worst) == (6, 2, 6, 10, 11)
    assert ErrorDistribution.of([np.array([3.0, 8.0])], worst_is_least=True).worst == 3


def test_a_spread_has_the_mean_and_both_ends() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2, 1, 3)


moments = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 100), st.floats(0, 1)).map(
        lambda drawn: (max(drawn[0], drawn[1]), min(drawn[0], drawn[1]), drawn[2])
    ),
    min_size=1,
    max_size=20,
)


@given(moments, st.floats(1, 2), st.floats(1, 2))
def test_more_margin_never_means_more_violations_nor_more_savings(
    drawn: list[tuple[float, float, float]], some: float, more: float
) -> None:
    """(limit, what came, share that the model says) of one machine."""
    lean, safe = ErrorTally(1), ErrorTally(1)
    for limit, came, share in drawn:
        for tally, margin in ((lean, some), (safe, some * more)):
            peak = min(limit, limit * share * margin)
            tally.add(np.array([peak]), np.array([came]), np.array([limit]))
    if lean.instants[0]:
        one, other = lean.scores(), safe.scores()
        assert (other.violation <= one.violation).all()
        assert (other.severity <= one.severity + 1e-12).all()
        assert other.cell_savings <= one.cell_savings + 1e-12


@given(moments)
def test_the_oracle_never_violates_and_a_predictor_that_saves_more_does(
    drawn: list[tuple[float, float, float]],
) -> None:
    perfect, bold = ErrorTally(1), ErrorTally(1)
    for limit, came, share in drawn:
        perfect.add(np.array([came]), np.array([came]), np.array([limit]))
        bold.add(np.array([came * share]), np.array([came]), np.array([limit]))
    if perfect.instants[0]:
        best, other = perfect.scores(), bold.scores()
        assert best.violation[0] == best.severity[0] == 0
        assert other.cell_savings >= best.cell_savings - 1e-12
        if other.cell_savings > best.cell_savings + 1e-6:
            assert other.violation[0] > 0


def test_a_verdict_puts_placements_together() -> None:
    placements = []
    for peak in (8.0, 4.0):
        tally = ErrorTally(2)
        tally.add(np.array([peak, 10.0]), np.array([6.0, 6.0]), np.array([10.0, 10.0]))
        placements.append(tally.scores())
    verdict = ModelVerdict.of(placements)
    assert verdict.violation == Spread(0.25, 0.0, 0.5)
    assert verdict.severity.greatest == pytest.approx((6 - 4) / 6 / 2)
    assert verdict.severity_when_violated.greatest == pytest.approx((6 - 4) / 6)
    assert verdict.savings == Spread(pytest.approx(0.2), pytest.approx(0.1), pytest.approx(0.3))
    assert verdict.violation_by_machine.worst == 0.5
