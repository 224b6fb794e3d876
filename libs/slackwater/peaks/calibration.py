"""Calibration: measures how often a knob would have been too small, and derives the knob for a stated rate.

Every hour each machine records B (the combined usage of its members) and R (the risk). A day later the usage that the
remaining members reached, PO, is known, and with it z = (PO - B) / R: a knob below z would have been violated. The
ledger is the distribution of z in machine-days (24 records each), with a half-life. From it follows the smallest knob
whose ratio of violations stays below the stated rate times `safety`, combined with a reference tail that weighs
`prior_days`. `safety` is needed because violations cluster: there are fewer events than records. Open records count by
the elapsed part of their day, so that recent violations count at once.

Results from little history are weak evidence for predictions from more history. A record therefore weighs by how well
its members were known, relative to the best known members now: after two days the records of the first day are the only
ones, after two weeks their weight is close to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.records import record
from slackwater.peaks.fleet import MachineMembers
from slackwater.peaks.histogram import HistogramMatrix
from slackwater.peaks.port import Floats, Rows
from slackwater.peaks.profiles import DAY, HOUR
from slackwater.peaks.tables import SeriesColumn, SeriesRing, State, Table, named, part_of

_HOURS = 24
_UNSEEN = -(2**62)
_ALL, _BROKEN = 0, 1

REFERENCE_TAIL = (
    *((0.0, 5e-2), (0.04, 3e-2), (0.10, 2e-2), (0.17, 1e-2), (0.22, 6e-3), (0.25, 5e-3), (0.32, 3e-3)),
    *((0.34, 2.5e-3), (0.52, 1e-3), (0.59, 5e-4), (1.0, 1e-4), (2.0, 1e-5), (8.0, 1e-7)),
)
"""(z, ratio above it) on machines of 20 VMs with two weeks of history; the last three points are extrapolated."""


@record(frozen=True, slots=True)
class LedgerOptions:
    """Weights in machine-days; the weight of a record halves after `half_life_seconds`."""

    prior_days: float = 200.0
    safety: float = 0.6
    half_life_seconds: float = 28 * DAY


class CalibrationScores:
    """Buckets of z: -1 to 2 by 0.01, to 8 by 0.05, and one for larger values."""

    count = 421

    @cached_property
    def starts(self) -> Floats:
        fine, coarse = np.arange(-100, 200) / 100, 2 + np.arange(121) / 20
        return np.concatenate([fine, coarse])

    def find(self, values: Floats) -> Rows:
        return np.maximum(np.searchsorted(self.starts, values, side="right") - 1, 0)


@record(frozen=True, slots=True)
class Record:
    """The record of the machines present: B, R, the knob in force, and how well their members were known (0..1)."""

    base: Floats
    risk: Floats
    knob: Floats
    weight: Floats


class CalibrationLedger:
    """Open records of the last 24 hours by machine, and the distribution of the finished ones."""

    def __init__(self, options: LedgerOptions) -> None:
        self.options = options
        blocked = ("base", "risk", "knob", "weight", "peak")
        columns = {name: SeriesColumn(np.float64, blocked=True) for name in blocked}
        columns["hours"] = SeriesColumn(np.int32, blocked=True)
        self.open = SeriesRing(columns, _HOURS, HOUR)
        self.born = Table({"block": SeriesColumn(np.int64, empty=_UNSEEN)})
        self.scores = CalibrationScores()
        self.done = HistogramMatrix(self.scores, options.half_life_seconds)
        self.done.ensure_rows(2)
        self.done.ensure_columns(self.scores.count)
        self.pending: Floats = np.zeros(self.scores.count)
        self.known_now = 1.0

    def turn(self, at_seconds: float) -> bool:
        """Finishes records that are a day old. Returns False if the window is too late to be recorded."""
        block, before = self.open.block_of(at_seconds), self.open.newest
        for old in self.open.passing(block):
            self._finish(old)
        self.open.turn(block)
        if self.open.newest != before:
            self.pending, self.known_now = self._pending(), self._known_now()
        return block == self.open.newest

    def lacking(self, fleet: MachineMembers) -> NDArray[np.bool_]:
        """Returns which of the machines present have no record for the current hour."""
        self.open.reach(fleet.machines)
        return np.asarray(self.open["hours"][self._line(0), fleet.machines] == 0)

    def write(self, fleet: MachineMembers, lacking: NDArray[np.bool_], record: Record) -> None:
        """Opens the current hour's record of those machines, for their present members."""
        machines, line = fleet.machines[lacking], self._line(0)
        for name in ("base", "risk", "knob", "weight"):
            self.open[name][line, machines] = getattr(record, name)[lacking]
        for age in range(_HOURS):
            self.open["hours"][self._line(age), machines] += 1

    def watch(self, fleet: MachineMembers, used: Floats, written: NDArray[np.bool_]) -> None:
        """Raises the open records to the present usage of their remaining members."""
        newest = self.open.newest or 0
        age = newest - self._born(fleet, written, newest)
        place, ages = fleet.place(), _HOURS + 1
        cells = place * ages + np.clip(age, -1, _HOURS - 1) + 1
        by_age = np.bincount(cells, weights=used, minlength=len(fleet.machines) * ages).reshape(-1, ages)
        at_least = np.cumsum(by_age[:, ::-1], axis=1)[:, ::-1]
        for hours in range(_HOURS):
            line = self.open["peak"][self._line(hours)]
            line[fleet.machines] = np.maximum(line[fleet.machines], at_least[:, hours + 1])

    def knob(self, rate: float) -> float:
        """Returns the smallest knob (0 or more) for a stated rate of violations (0..1)."""
        weights = (self.done.weights[_ALL] * self._now() + self.pending) / self.known_now
        tail = np.cumsum(weights[::-1])[::-1]
        options, starts = self.options, self.scores.starts
        enough = options.prior_days * reference_tail(starts) + tail <= (
            options.safety * rate * (options.prior_days + tail[0])
        )
        allowed = starts[enough & (starts >= -1e-9)]
        return float(max(allowed[0], 0.0)) if len(allowed) else float(starts[-1])

    def coverage(self) -> tuple[float, float]:
        """Returns the finished machine-days, and the ratio of them that the knob then in force did not cover."""
        days = float(self.done.totals[_ALL] * self._now())
        return days, (float(self.done.totals[_BROKEN] * self._now()) / days if days > 0 else 0.0)

    def forget(self, machines: Rows, series: Rows) -> None:
        self.open.forget(machines)
        self.born.forget(series)

    def state(self) -> State:
        done = {"weights": self.done.weights[:2].copy(), "totals": self.done.totals[:2].copy()}
        done |= {"reference": self.done.reference[:2].copy(), "pending": self.pending.copy()}
        done["known_now"] = np.array([self.known_now])
        return {**named("open", self.open.state()), **named("born", self.born.state()), **named("done", done)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.open.restore(part_of(state, "open"))
        self.born.restore(part_of(state, "born"))
        done = part_of(state, "done")
        self.done.weights[:2], self.done.totals[:2] = done["weights"], done["totals"]
        self.done.reference[:2], self.pending = done["reference"], np.array(done["pending"])
        self.known_now = float(done["known_now"][0])

    def _line(self, age: int) -> int:
        return self.open.line((self.open.newest or 0) - age)

    def _born(self, fleet: MachineMembers, written: NDArray[np.bool_], newest: int) -> Rows:
        """Returns (m,) the first hour whose record includes each member: the current one if it is being written now."""
        series = fleet.members.series
        self.born.reach(series)
        born = self.born["block"]
        unseen = born[series] == _UNSEEN
        if unseen.any():
            born[series[unseen]] = np.where(written[fleet.place()], newest, newest + 1)[unseen]
        return np.asarray(born[series])

    def _finish(self, block: int) -> None:
        """Scores the records of an hour. A record with samples in half of its hours weighs half."""
        score, weight = self._scored(block)
        counts = weight > 0
        at = np.full(int(counts.sum()), (block + _HOURS) * HOUR)
        self._count(_ALL, score[counts], at, weight[counts])
        broken = counts & (score > self.open["knob"][self.open.line(block), : self.open.used])
        self._count(_BROKEN, score[broken], at[: int(broken.sum())], weight[broken])

    def _scored(self, block: int) -> tuple[Floats, Floats]:
        """Returns z of each machine's present record of that hour, and its weight in machine-days."""
        line, used = self.open.line(block), self.open.used
        base, risk, weight, peak, hours = (
            self.open[name][line, :used] for name in ("base", "risk", "weight", "peak", "hours")
        )
        above = peak - base
        score = np.where(above > 0, self.scores.starts[-1], self.scores.starts[0])
        np.divide(above, risk, out=score, where=risk > 0)
        return score, weight * hours / _HOURS / _HOURS

    def _pending(self) -> Floats:
        """Returns the distribution of the open records' scores at the start of an hour."""
        weights = np.zeros(self.scores.count)
        for block in self.open.blocks():
            score, weight = self._scored(block)
            weights += np.bincount(self.scores.find(score), weights=weight, minlength=self.scores.count)
        return weights

    def _known_now(self) -> float:
        """Returns how well the members of the best known machine of the last day are known, above 0 and up to 1."""
        best = float(self.open["weight"][:, : self.open.used].max(initial=0.0))
        return best if best > 0 else 1.0

    def _count(self, row: int, scores: Floats, at: Floats, weights: Floats) -> None:
        self.done.add(np.full(len(scores), row, dtype=np.intp), scores, at, weights)

    def _now(self) -> float:
        """Returns the factor on past weights at the end of the newest finished hour."""
        if self.open.newest is None or not self.done.totals[_ALL] > 0:
            return 0.0
        seconds = self.open.newest * HOUR - self.done.reference[_ALL]
        return float(np.exp2(-seconds / self.options.half_life_seconds))


def reference_tail(scores: Floats) -> Floats:
    """Returns the ratio of records above each z, by log-linear interpolation of `REFERENCE_TAIL`."""
    points = np.array(REFERENCE_TAIL)
    return np.asarray(np.exp(np.interp(scores, points[:, 0], np.log(points[:, 1]))))
