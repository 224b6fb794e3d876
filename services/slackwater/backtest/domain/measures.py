"""The prediction error of a model, in the measures of Bashir et al. (EuroSys'21).

Violation: the actual peak of the next 24 hours exceeds the predicted one. Severity: the shortfall of the prediction
as a share of the actual peak, 0 without a violation. Savings: the share of the limits that need not be kept free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""Excess, as a share of the limits, that is not a violation: sums in another order differ by rounding."""


class ErrorTally:
    """Error sums per machine of one model under one placement. Instants in which a machine is empty do not count."""

    def __init__(self, machines: int) -> None:
        self.instants = np.zeros(machines)
        self._violations = np.zeros(machines)
        self._short = np.zeros(machines)
        self._kept = np.zeros(machines)
        self._limits = np.zeros(machines)

    def add(self, peak: Floats, came: Floats, limits: Floats) -> None:
        """Adds one instant; all arrays are (machines,). Raises ValueError if a peak is not a number."""
        if not np.isfinite(peak).all():
            raise ValueError("a predicted peak is not a number")
        violated = came > peak + ROUNDING * limits
        self.instants += limits > 0
        self._violations += violated
        self._short += np.where(violated, (came - peak) / np.where(violated, came, 1.0), 0.0)
        self._kept += peak
        self._limits += limits

    def scores(self) -> ErrorScores:
        used = self.instants > 0
        instants, violations, short = self.instants[used], self._violations[used], self._short[used]
        limits = float(self._limits.sum())
        return ErrorScores(
            violation=violations / instants,
            severity=short / instants,
            savings=1 - self._kept[used] / self._limits[used],
            severity_when_violated=float(short.sum() / violations.sum()) if violations.any() else 0.0,
            cell_savings=1 - float(self._kept.sum()) / limits if limits else 0.0,
            instants=int(instants.sum()),
        )


@dataclass(frozen=True, slots=True)
class ErrorScores:
    """The errors of one model under one placement, as ratios. Arrays have one value per machine that had members."""

    violation: Floats
    severity: Floats
    """Mean over all instants, including those without a violation."""
    savings: Floats
    severity_when_violated: float
    """Mean over the instants with a violation."""
    cell_savings: float
    """Over all machines: sum of the savings divided by the sum of the limits."""
    instants: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, minimum and maximum of one figure over several placements."""

    mean: float
    least: float
    greatest: float

    @staticmethod
    def of(values: list[float]) -> Spread:
        return Spread(float(np.mean(values)), min(values), max(values))


@dataclass(frozen=True, slots=True)
class ErrorDistribution:
    """Quantiles of a figure over machines, computed for each placement and averaged over the placements."""

    mean: float
    p10: float
    p50: float
    p90: float
    worst: float
    """The maximum of violation or severity; the minimum of savings."""

    @staticmethod
    def of(placements: list[Floats], *, worst_is_least: bool = False) -> ErrorDistribution:
        worst = np.min if worst_is_least else np.max
        rows = [[np.mean(p), *np.quantile(p, (0.1, 0.5, 0.9)), worst(p)] for p in placements]
        return ErrorDistribution(*(float(value) for value in np.mean(rows, axis=0)))


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """The errors of one model over all placements."""

    violation: Spread
    """Spread of the mean over machines."""
    violation_by_machine: ErrorDistribution
    severity: Spread
    severity_by_machine: ErrorDistribution
    severity_when_violated: Spread
    savings: Spread
    """Spread of the savings over all machines."""
    savings_by_machine: ErrorDistribution

    @staticmethod
    def of(placements: list[ErrorScores]) -> ModelVerdict:
        return ModelVerdict(
            violation=Spread.of([float(s.violation.mean()) for s in placements]),
            violation_by_machine=ErrorDistribution.of([s.violation for s in placements]),
            severity=Spread.of([float(s.severity.mean()) for s in placements]),
            severity_by_machine=ErrorDistribution.of([s.severity for s in placements]),
            severity_when_violated=Spread.of([s.severity_when_violated for s in placements]),
            savings=Spread.of([s.cell_savings for s in placements]),
            savings_by_machine=ErrorDistribution.of([s.savings for s in placements], worst_is_least=True),
        )
