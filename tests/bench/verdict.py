"""Whether a figure met its target, at the speed this machine had beside the measurement. Pure.

Targets hold at a calibration of 5.0 M rounds/s. On a machine of another speed a time may be longer and a rate lower in
proportion; counts, sizes and shares stay. Above 3 % of steal nothing is judged, because the host ran somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

REFERENCE_ROUNDS_PER_SECOND = 5.0e6
MOST_STEAL = 0.03
EXIT_MET, EXIT_MISSED, EXIT_NOT_MEASURABLE = 0, 1, 3


class Verdict(StrEnum):
    """Of one figure."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURABLE = "not measurable"


class Scale(StrEnum):
    """How a limit follows the speed of the machine."""

    TIME = "time"
    """Seconds, or CPU seconds a second under a load that does not follow the speed."""
    RATE = "rate"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Target:
    """What was seen of one quantity (None: nothing), and its limit at the reference calibration.

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
        """`<= 2 s`, as it holds at a speed."""
        sign = "≥" if self.at_least or self.scale is Scale.RATE else "≤"
        return f"{sign} {_number(self.limit_at(speed))}{_spaced(self.unit)}"

    def told(self) -> str:
        """`settled p99 0.71 s`."""
        seen = "nothing seen" if self.seen is None else f"{_number(self.seen)}{_spaced(self.unit)}"
        return f"{self.what} {seen}"


@dataclass(frozen=True, slots=True)
class Conditions:
    """Of one measurement: rounds a second of the calibration loop right before and after it, and the share of all CPU
    time that the host took while it ran."""

    before: float
    after: float
    steal: float

    @property
    def calibration(self) -> float:
        return (self.before + self.after) / 2

    @property
    def speed(self) -> float:
        """Times the reference."""
        return self.calibration / REFERENCE_ROUNDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict, and in words what missed or why nothing can be said."""

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
    said = (f"{target.told()}, wanted {target.bound(conditions.speed)} at this speed" for target in missed)
    return Judgement(Verdict.MISSED, "; ".join(said))


def exit_status(verdicts: Iterable[Verdict], *, failed: bool = False) -> int:
    """1 where a target was missed or a measurement failed, else 3 where one was not measurable, else 0."""
    found = set(verdicts)
    if failed or Verdict.MISSED in found:
        return EXIT_MISSED
    return EXIT_NOT_MEASURABLE if Verdict.NOT_MEASURABLE in found else EXIT_MET


def _number(value: float) -> str:
    """Three digits that count, with thousands apart."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _spaced(unit: str) -> str:
    return f" {unit}" if unit and not unit.startswith("/") else unit
