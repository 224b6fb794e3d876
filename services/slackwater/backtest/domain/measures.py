"""How far a model was from what came, as Bashir et al. (EuroSys'21) count it.

Violation: the peak that came in the next 24 hours is above the predicted one. Severity: by which share of the real
peak the prediction was short; 0 where it was not. Savings: the share of the limits that need not be kept free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""Share of the limits by which sums in another order may differ; no violation."""


class ErrorTally:
    """Sums per machine of one model under one placement; instants in which a machine is empty do not count."""

    def __init__(self, machines: int) -> None:
        self.instants = np.zeros(machines)
        self._violations = np.zeros(machines)
        self._short = np.zeros(machines)
        self._kept = np.zeros(machines)
        self._limits = np.zeros(machines)

    def add(self, peak: Floats, came: Floats, limits: Floats) -> None:
        """One instant, each (machines,). Raises ValueError for a peak that is no number: a defect of the model."""
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
    """Of one model under one placement. Arrays are per machine that had members; all are ratios."""

    violation: Floats
    severity: Floats
    """Mean over all instants, those without a violation included."""
    savings: Floats
    severity_when_violated: float
    """Mean over the instants with a violation only."""
    cell_savings: float
    """Of all machines together: sum of what was saved over sum of limits."""
    instants: int


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over several placements: the mean of their values, the least and the greatest."""

    mean: float
    least: float
    greatest: float

    @staticmethod
    def of(values: list[float]) -> Spread:
        return Spread(float(np.mean(values)), min(values), max(values))


@dataclass(frozen=True, slots=True)
class ErrorDistribution:
    """How a figure is spread over machines: quantiles under each placement, then their mean over placements."""

    mean: float
    p10: float
    p50: float
    p90: float
    worst: float
    """The greatest violation or severity; of savings the least."""

    @staticmethod
    def of(placements: list[Floats], *, worst_is_least: bool = False) -> ErrorDistribution:
        worst = np.min if worst_is_least else np.max
        rows = [[np.mean(p), *np.quantile(p, (0.1, 0.5, 0.9)), worst(p)] for p in placements]
        return ErrorDistribution(*(float(value) for value in np.mean(rows, axis=0)))


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """All placements of one model together."""

    violation: Spread
    """Of the mean over machines."""
    violation_by_machine: ErrorDistribution
    severity: Spread
    severity_by_machine: ErrorDistribution
    severity_when_violated: Spread
    savings: Spread
    """Of the cell's savings."""
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
