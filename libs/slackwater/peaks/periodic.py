"""periodic: predicts the next day of the present workloads, where a period of a day or a week is proven.

    next(h)  largest value of hour h in the whole periods of the history                    (by phase)
    own      largest hour of the history, for workloads without a proven period

    P  = min(L, max over the next 24 hours of sum(next) + sum(own), each x (1 + margin) and at most its limit
                + limits of the unknown workloads)

A period is proven on finished hours only (see `signals`): on whole weeks if there are two, otherwise on the largest
number of last days, at least two, that have a sample in each hour. Its autocorrelation is at least `correlation`. A
workload whose current hour exceeds its pattern has no period for now. The prediction states which part of the limits
follows a period.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.records import record
from slackwater.peaks.fleet import MachineMembers, machine_members, measured
from slackwater.peaks.port import Floats, Members, Peaks, Rows
from slackwater.peaks.profiles import HOUR, Profiles
from slackwater.peaks.signals import by_phase, filtered, largest_by_phase, prediction_error, proven
from slackwater.peaks.tables import State, named, part_of

DAY_HOURS, WEEK_HOURS = 24, 168
AHEAD = 24
_LEAST_DAYS = 2
_AROUND = 4
"""Hours over which the autocorrelation must rise before a period and fall after it."""
_NO_MARGIN = 1e-9
MAX, FFT, BEST = "max", "fft", "best"


@record(frozen=True, slots=True)
class PeriodicOptions:
    """`correlation` 0..1 is the minimum at a period. `estimator`: `max` by phase; `fft` the last period without weak
    fast lines; `best` the one of both that predicted the last period better from those before.
    """

    margin: float = 0.10
    history_hours: int = 336
    cold_hours: int = 24
    correlation: float = 0.5
    estimator: str = MAX


@record(frozen=True, slots=True)
class Pattern:
    """By workload: the period in hours (0: none proven), and the values from the current hour on."""

    period: Rows
    ahead: Floats
    """(AHEAD + 1, workloads); 0 where there is no period."""


@record(frozen=True, slots=True)
class _Known:
    """By member: whether it is cold, whether it follows a period, and its largest hour."""

    cold: NDArray[np.bool_]
    periodic: NDArray[np.bool_]
    own: Floats
    ahead: Floats
    """(AHEAD + 1, m): see Pattern."""


class Periodic:
    """The periodic model. Patterns are computed once an hour from the history, so they are not part of the state."""

    name = "periodic"
    version = "1"

    def __init__(self, options: PeriodicOptions) -> None:
        self.options = options
        self.profiles = Profiles(options.history_hours)
        self._pattern: Pattern | None = None

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        fleet, used = measured(members, usage)
        if not len(used):
            return
        ring, rows = self.profiles.ring, fleet.members.workload
        newest, known = ring.newest, ring.used
        units = ring["unit"].copy()
        self.profiles.fold(at_seconds, rows, used, fleet.limit)
        same = ring.newest == newest == ring.block_of(at_seconds) and ring.used == known
        if not same or not np.array_equal(ring["unit"][: len(units)], units):
            self._pattern = None

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        fleet = machine_members(members)
        known = self._known(at_seconds, fleet)
        plain = self._together(fleet, known, 0.0)
        more = self._together(fleet, known, self.options.margin)
        unknown = fleet.sums(np.where(known.cold, fleet.limit, 0.0))
        with_period = fleet.sums(np.where(known.periodic, fleet.limit, 0.0))
        terms = {
            "periodic": plain[0],
            "no_proven_period": plain[1],
            "safety_margin": np.maximum(sum(more) - sum(plain), 0.0),
            "cold_start_limits": unknown,
        }
        share = np.divide(with_period, fleet.total, out=np.zeros_like(with_period), where=fleet.total > 0)
        return fleet.answer(terms, known.cold, {"periodic_share": share})

    def periods(self, workloads: Rows) -> Rows:
        """Returns the proven period of each workload in hours; 0 for none."""
        self.profiles.ring.see(workloads)
        return np.asarray(self._patterns().period[workloads])

    def _together(self, fleet: MachineMembers, known: _Known, margin: float) -> tuple[Floats, Floats]:
        """Returns by machine present: the largest hour of the periodic members combined, and the sum of the others."""
        largest = np.zeros(len(fleet.starts))
        for hour in known.ahead[1:]:
            with_margin = np.minimum(hour * (1 + margin), fleet.limit)
            np.maximum(largest, fleet.sums(np.where(known.periodic, with_margin, 0.0)), out=largest)
        alone = ~known.periodic & ~known.cold
        own = np.minimum(known.own * (1 + margin), fleet.limit)
        return largest, fleet.sums(np.where(alone, own, 0.0))

    def _known(self, at_seconds: float, fleet: MachineMembers) -> _Known:
        rows, ring = fleet.members.workload, self.profiles.ring
        cold = self.profiles.hours(rows) < max(self.options.cold_hours, 1)
        own = self.profiles.own(rows)
        pattern, block = self._patterns(), ring.block_of(at_seconds)
        late = 0 if ring.newest is None else block - ring.newest
        if ring.newest is None or not 0 <= late <= 1:  # after an hour without samples the offsets are no longer valid
            return _Known(cold, np.zeros(len(rows), dtype=bool), own, np.zeros((AHEAD + 1, len(rows))))
        ahead = pattern.ahead[:, rows]
        running = ring["peak"][ring.line(ring.newest), rows] * ring["unit"][rows]
        follows = running <= ahead[0] * (1 + self.options.margin) + _NO_MARGIN
        return _Known(cold, ~cold & (pattern.period[rows] > 0) & follows, own, ahead)

    def _patterns(self) -> Pattern:
        ring = self.profiles.ring
        width = ring["unit"].shape[-1]
        if self._pattern is None or len(self._pattern.period) < width:
            self._pattern = self._found(width)
        return self._pattern

    def _found(self, width: int) -> Pattern:
        """Computes the pattern from finished hours: weekly periods first, then daily ones."""
        ring = self.profiles.ring
        period, ahead = np.zeros(width, dtype=np.intp), np.zeros((AHEAD + 1, width))
        blocks = list(ring.blocks())[:-1]
        seen = np.zeros(ring.used, dtype=bool)
        for length, hours in _windows(len(blocks)):
            steps = ring["peak"][[ring.line(block) for block in blocks[-hours:]], : ring.used]
            rows = np.flatnonzero((steps > 0).all(axis=0) & ~seen)
            series = steps[:, rows].T * ring["unit"][rows, None]
            is_one, correlation = proven(series, length, _AROUND)
            chosen = is_one & (correlation >= self.options.correlation)
            seen[rows[chosen] if length == WEEK_HOURS else rows] = True
            period[rows[chosen]] = length
            ahead[:, rows[chosen]] = self._ahead(series[chosen], length).T
        return Pattern(period, ahead)

    def _ahead(self, series: Floats, period: int) -> Floats:
        """(n, hours) -> (n, AHEAD + 1): the current hour is phase 0, because finished periods are whole."""
        next_period = self._estimated(series, period)
        return next_period[:, np.arange(AHEAD + 1) % period]

    def _estimated(self, series: Floats, period: int) -> Floats:
        by_maximum = largest_by_phase(series, period)
        if self.options.estimator == MAX:
            return by_maximum
        smooth = _smooth(series, period)
        if self.options.estimator == FFT or series.shape[-1] < 3 * period:
            return smooth if self.options.estimator == FFT else by_maximum
        before, last = series[:, :-period], by_phase(series, period)[:, -1]
        errors = [prediction_error(last, estimate(before, period)) for estimate in (largest_by_phase, _smooth)]
        return np.where((errors[1] < errors[0])[:, None], smooth, by_maximum)

    def merge(self, other: Periodic) -> None:
        """Adds the samples of another model for the same workloads."""
        self.profiles.merge(other.profiles)
        self._pattern = None

    def state(self) -> State:
        return named("profiles", self.profiles.state())

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.profiles.restore(part_of(state, "profiles"))
        self._pattern = None

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        self.profiles.forget(workloads)
        self._pattern = None


def _windows(hours: int) -> Iterator[tuple[int, int]]:
    """Yields each period and the number of last hours that must prove it: all whole weeks, then decreasing days."""
    if hours >= 2 * WEEK_HOURS:
        yield WEEK_HOURS, hours // WEEK_HOURS * WEEK_HOURS
    days = hours // DAY_HOURS
    while days >= _LEAST_DAYS:
        yield DAY_HOURS, days * DAY_HOURS
        days = days // 2 if days > _LEAST_DAYS + 1 else days - 1


def _smooth(series: Floats, period: int) -> Floats:
    """Removes lines below a hundredth of the level that are faster than a quarter of a day."""
    scale = np.maximum(series.mean(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    share = filtered(series / scale, period, interval_seconds=HOUR, high_frequency=4 / 86_400, low_amplitude=0.01)
    return np.asarray(share * scale)
