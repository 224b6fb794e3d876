"""Judges whether a figure met its target, scaled by the machine's speed during the measurement. Pure.

Targets apply at a calibration of 5.0 M rounds/s. At another speed, limits of times and rates are scaled in proportion;
counts, sizes and shares are not. Above 3 % of steal nothing is judged, because the host ran other guests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

REFERENCE_ROUNDS_PER_SECOND = 5.0e6
MOST_STEAL = 0.03
EXIT_MET, EXIT_MISSED, EXIT_NOT_MEASURABLE = 0, 1, 3


class Verdict(StrEnum):
    """The verdict on one figure."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURABLE = "not measurable"


class Scale(StrEnum):
    """How a limit is scaled with the speed of the machine."""

    TIME = "time"
    """Seconds, or CPU seconds per second under a fixed load."""
    RATE = "rate"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Target:
    """The measured value of one quantity (None: not measured), and its limit at the reference calibration.

    A rate is at least its limit, a time at most; `at_least` says it for what is not scaled.
    """

    what: str
    seen: float | None
    limit: float
    unit: str = ""
    scale: Scale = Scale.NONE
    at_least: bool = False

    def limit_at(self, speed: float) -> float:
        """The limit on a machine of `speed` times the reference."""
        factor = {Scale.TIME: 1 / speed, Scale.RATE: speed, Scale.NONE: 1.0}[self.scale]
        return self.limit * factor

    def is_met(self, speed: float) -> bool:
        if self.seen is None:
            return False
        if self.at_least or self.scale is Scale.RATE:
            return self.seen >= self.limit_at(speed)
        return self.seen <= self.limit_at(speed)

    def bound(self, speed: float = 1.0) -> str:
        """The scaled limit as text: `<= 2 s`."""
        sign = "≥" if self.at_least or self.scale is Scale.RATE else "≤"
        return f"{sign} {_number(self.limit_at(speed))}{_spaced(self.unit)}"

    def told(self) -> str:
        """The measured value as text: `settled p99 0.71 s`."""
        seen = "nothing seen" if self.seen is None else f"{_number(self.seen)}{_spaced(self.unit)}"
        return f"{self.what} {seen}"


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of one measurement: rounds per second of the calibration loop right before and after it, and the
    share of CPU time that the host stole during it."""

    before: float
    after: float
    steal: float

    @property
    def calibration(self) -> float:
        return (self.before + self.after) / 2

    @property
    def speed(self) -> float:
        """The speed as a multiple of the reference."""
        return self.calibration / REFERENCE_ROUNDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict, and as text the missed targets or the reason why it is not measurable."""

    verdict: Verdict
    why: str = ""


def judge(targets: Sequence[Target], conditions: Conditions) -> Judgement:
    """The verdict over all targets of a figure."""
    if conditions.steal > MOST_STEAL:
        why = f"the host took {conditions.steal:.1%} of the CPU time (steal), more than {MOST_STEAL:.0%}"
        return Judgement(Verdict.NOT_MEASURABLE, why)
    missed = [target for target in targets if not target.is_met(conditions.speed)]
    if not missed:
        return Judgement(Verdict.MET)
    missed_texts = (f"{target.told()}, target {target.bound(conditions.speed)} at this speed" for target in missed)
    return Judgement(Verdict.MISSED, "; ".join(missed_texts))


def exit_status(verdicts: Iterable[Verdict], *, failed: bool = False) -> int:
    """1 if a target was missed or a measurement failed, else 3 if one was not measurable, else 0."""
    found = set(verdicts)
    if failed or Verdict.MISSED in found:
        return EXIT_MISSED
    return EXIT_NOT_MEASURABLE if Verdict.NOT_MEASURABLE in found else EXIT_MET


def _number(value: float) -> str:
    """Three significant digits, with thousands separators."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _spaced(unit: str) -> str:
    return f" {unit}" if unit and not unit.startswith("/") else unit
