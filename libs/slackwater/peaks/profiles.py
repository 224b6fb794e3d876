"""History of `workload-profile`: hourly maxima of workloads over two weeks, and daily maxima of pods.

An amount is stored as a whole number of units in 16 bits, rounded up. A unit is a power of two, the smallest that fits
the largest limit seen: an hour reads at most one unit too high (0.0031 % of that limit), never too low. Rounding up by
powers of two composes exactly, so stored values do not depend on when a limit grew. Sums of such amounts are exact, so
they do not depend on the order of pods.

A stored 0 is an hour without a sample; an hour without usage reads as one unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.peaks.port import Floats, Rows
from slackwater.peaks.tables import SeriesColumn, SeriesRing, State

HOUR = 3600.0
DAY = 86_400.0
MOST = 65_535
SMALLEST_UNIT = 2.0**-10
_VANISHED = 17
_FEW = 4096
"""Up to this many members are read in one gather; more are read hour by hour, which stays in the cache."""


class Profiles:
    """The current hour and the `hours` before it, of each workload. 2 bytes per hour, plus 12."""

    def __init__(self, hours: int) -> None:
        columns = {
            "peak": SeriesColumn(np.uint16, blocked=True),
            "unit": SeriesColumn(np.float64, empty=SMALLEST_UNIT),
            "hours": SeriesColumn(np.int32),
        }
        self.ring = SeriesRing(columns, hours + 1, HOUR)

    def fold(self, at_seconds: float, rows: Rows, values: Floats, limit: Floats) -> None:
        """Folds values between 0 and their limit; of several pods of one workload the largest counts."""
        ring = self.ring
        ring.reach(rows)
        self._widen(rows, limit)
        block = ring.block_of(at_seconds)
        if not self._turn(block):
            return
        line, hours = ring["peak"][ring.line(block)], ring["hours"]
        new = rows[line[rows] == 0]
        hours[new] = hours[new] + 1  # a workload that occurs twice counts the hour once
        steps = np.maximum(np.ceil(values / ring["unit"][rows]), 1.0).astype(np.uint16)
        np.maximum.at(line, rows, steps)

    def hours(self, rows: Rows) -> Rows:
        """Returns the number of hours of the window in which each workload was seen."""
        self.ring.see(rows)
        return np.asarray(self.ring["hours"][rows], dtype=np.intp)

    def own(self, rows: Rows) -> Floats:
        """Returns the largest hour of each workload."""
        self.ring.see(rows)
        peak = self.ring["peak"]
        few = len(rows) * 4 < self.ring.used
        steps = peak[:, rows].max(axis=0) if few else peak.max(axis=0)[rows]
        return np.asarray(steps * self.ring["unit"][rows])

    def together(self, rows: Rows, counted: NDArray[np.bool_], starts: Rows) -> Floats:
        """Returns for each group (starting at `starts`) the largest hour of the sum of its `counted` members."""
        if not len(rows):
            return np.zeros(0)
        self.ring.see(rows)
        unit = np.where(counted, self.ring["unit"][rows], 0.0)
        peak = self.ring["peak"]
        if len(rows) <= _FEW:
            by_hour: Floats = np.add.reduceat(peak[:, rows] * unit, starts, axis=1).max(axis=0)
            return by_hour
        steps, amounts = np.empty(len(rows), np.uint16), np.empty(len(rows))
        largest, sums = np.zeros(len(starts)), np.empty(len(starts))
        for line in peak:
            np.take(line, rows, out=steps, mode="clip")  # `see` made room, so nothing is clipped and no copy is made
            np.multiply(steps, unit, out=amounts)
            np.add.reduceat(amounts, starts, out=sums)
            np.maximum(largest, sums, out=largest)
        return largest

    def merge(self, other: Profiles) -> None:
        """Adds the samples of another instance for the same workloads, as if they had been folded here."""
        if other.ring.newest is None:
            return
        theirs = Profiles(self.ring.depth - 1)
        theirs.restore(other.state())
        used = np.arange(theirs.ring.used)
        self.ring.use(len(used))
        unit = np.maximum(self.ring["unit"][used], theirs.ring["unit"][used])
        for profiles in (self, theirs):
            profiles._coarsen(used, unit)
        self._turn(theirs.ring.newest or 0)
        for ours, line in self.ring.meet(theirs.ring):
            np.maximum(self.ring["peak"][ours, used], theirs.ring["peak"][line], out=theirs.ring["peak"][line])
            self.ring["peak"][ours, used] = theirs.ring["peak"][line]
        self.ring["hours"][used] = np.count_nonzero(self.ring["peak"][:, used], axis=0)

    def forget(self, rows: Rows) -> None:
        self.ring.forget(rows)

    def state(self) -> State:
        return self.ring.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.ring.restore(state)

    def _turn(self, block: int) -> bool:
        used = self.ring.used
        for old in self.ring.passing(block):
            self.ring["hours"][:used] -= self.ring["peak"][self.ring.line(old), :used] > 0
        return self.ring.turn(block)

    def _widen(self, rows: Rows, limit: Floats) -> None:
        """Enlarges the units of workloads whose limit no longer fits."""
        above = limit > self.ring["unit"][rows] * MOST
        if not above.any():
            return
        largest = np.zeros(self.ring.used)
        np.maximum.at(largest, rows[above], limit[above])
        grown = np.flatnonzero(largest)
        self._coarsen(grown, power_of_two(largest[grown] / MOST))

    def _coarsen(self, rows: Rows, unit: Floats) -> None:
        """Sets the units of distinct rows to values not below the present ones, and converts their history."""
        before = self.ring["unit"][rows]
        self.ring["unit"][rows] = unit
        used = (self.ring["hours"][rows] > 0) & (unit > before)
        if not used.any():
            return
        again = rows[used]
        halvings = np.minimum(np.log2(unit[used] / before[used]), _VANISHED).astype(np.uint32)
        steps = self.ring["peak"][:, again].astype(np.uint32)
        self.ring["peak"][:, again] = ((steps + ((1 << halvings) - 1)) >> halvings).astype(np.uint16)


class DailyPeaks:
    """The current day and the `days - 1` before it, of each pod, in single precision.

    Never above the profile of the pod's workload: an amount there has 16 bits, so single precision holds it exactly,
    and rounding to nearest never exceeds a number that could have been stored.
    """

    def __init__(self, days: int) -> None:
        self.ring = SeriesRing({"peak": SeriesColumn(np.float32, blocked=True)}, days, DAY)

    def fold(self, at_seconds: float, rows: Rows, values: Floats) -> None:
        self.ring.reach(rows)
        block = self.ring.block_of(at_seconds)
        if self.ring.turn(block):
            np.maximum.at(self.ring["peak"][self.ring.line(block)], rows, values.astype(np.float32))

    def own(self, rows: Rows) -> Floats:
        self.ring.see(rows)
        largest = np.zeros(len(rows), dtype=np.float32)
        for line in self.ring["peak"]:
            np.maximum(largest, line[rows], out=largest)
        return largest.astype(np.float64)

    def forget(self, rows: Rows) -> None:
        self.ring.forget(rows)

    def state(self) -> State:
        return self.ring.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.ring.restore(state)


def power_of_two(values: Floats) -> Floats:
    """Returns the smallest power of two that is at least each value (above 0)."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(1.0, exponent - (mantissa == 0.5)))
