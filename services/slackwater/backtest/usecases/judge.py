"""One placement: every model is fed the trace cell by cell and asked for its peaks, all of them in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from slackwater.backtest.domain.measures import ErrorScores, ErrorTally
from slackwater.backtest.domain.oracle import oracle
from slackwater.backtest.domain.span import JudgedSpan
from slackwater.backtest.ports import BacktestProgress, Contender, Stopwatch
from slackwater.peaks.port import Members, PeakModel
from slackwater.traces.moments import by_machine
from slackwater.traces.moments import moments as placed_moments
from slackwater.traces.placement import Stays
from slackwater.traces.trace import Rows, Trace

ORACLE = "oracle"
"""The perfect forecast stands among the models under this name."""
TOLD_EVERY = 32
"""Cells between two words to whoever watches the progress."""

Curves = NDArray[np.float32]


@dataclass(slots=True)
class Film:
    """What happened on each machine while it was evaluated, for pictures: (cells, machines)."""

    first: int
    usage: Curves
    limits: Curves
    peaks: dict[str, Curves]
    """By model, the oracle among them."""


@dataclass(slots=True)
class JudgedPlacement:
    """One placement of all models."""

    machines: int
    scores: dict[str, ErrorScores]
    seconds: dict[str, float]
    """What each model itself took, by label."""
    film: Film | None


@dataclass(slots=True)
class _Seat:
    """A model at work."""

    model: PeakModel
    tally: ErrorTally
    seconds: float = 0.0
    film: Curves | None = field(default=None)


@dataclass(frozen=True, slots=True)
class JudgedMoment:
    """One cell as the models see it."""

    cell: int
    at_seconds: float
    members: Members
    mistaken: Members
    """As `members`, with the keys that predictions are made with."""
    usage: NDArray[np.float64]
    limits: NDArray[np.float64]
    """(machines,) the sum of the members' limits."""


def judge(
    trace: Trace,
    stays: Stays,
    contenders: Sequence[Contender],
    span: JudgedSpan,
    *,
    keys: Rows,
    watch: BacktestProgress,
    stopwatch: Stopwatch,
    filmed: bool = False,
) -> JudgedPlacement:
    """`keys` says for each workload whose history predictions take for its own.

    Raises ValueError when a model answers what is no number, with its label.
    """
    came = oracle(trace.usage, stays)
    truth = ErrorTally(stays.machines)
    film = _empty_film(span, stays.machines, contenders) if filmed else None
    seats = {
        one.label: _Seat(one.make(), ErrorTally(stays.machines), film=film.peaks[one.label] if film else None)
        for one in contenders
    }
    for moment in moments(trace, stays, span.stop, keys):
        judged = moment.cell >= span.first
        if judged:
            truth.add(came[moment.cell], came[moment.cell], moment.limits)
            if film:
                _record(film, moment, came[moment.cell], stays.machines)
        for label, seat in seats.items():
            _step(label, seat, moment, came[moment.cell], stopwatch, judged=judged, at=moment.cell - span.first)
        if (moment.cell + 1) % TOLD_EVERY == 0:
            watch.advance(TOLD_EVERY)
    watch.advance(span.stop % TOLD_EVERY)
    scores = {ORACLE: truth.scores()} | {label: seat.tally.scores() for label, seat in seats.items()}
    return JudgedPlacement(stays.machines, scores, {label: seat.seconds for label, seat in seats.items()}, film)


def _step(
    label: str,
    seat: _Seat,
    moment: JudgedMoment,
    came: NDArray[np.float64],
    stopwatch: Stopwatch,
    *,
    judged: bool,
    at: int,
) -> None:
    """Models are asked while they only learn as well: those that learn from their own errors need it."""
    begun = stopwatch()
    seat.model.fold(moment.at_seconds, moment.members, moment.usage)
    peak = seat.model.peaks(moment.at_seconds, moment.mistaken).peak
    seat.seconds += stopwatch() - begun
    if judged:
        try:
            seat.tally.add(peak, came, moment.limits)
        except ValueError as error:
            raise ValueError(f"{label} at cell {moment.cell}: {error}") from error
        if seat.film is not None:
            seat.film[at] = peak


def moments(trace: Trace, stays: Stays, stop: int, keys: Rows) -> Iterator[JudgedMoment]:
    """Every cell before `stop`."""
    wrong = bool(np.any(keys != np.arange(len(keys))))
    for now in placed_moments(trace, stays, stop):
        seats, limits = now.seats, now.machine_limits
        members = Members(seats.machine, seats.stay, now.workload, now.limit, limits)
        yield JudgedMoment(
            cell=now.cell,
            at_seconds=now.at_seconds,
            members=members,
            mistaken=replace(members, workload=keys[now.workload]) if wrong else members,
            usage=now.usage,
            limits=limits,
        )


def _empty_film(span: JudgedSpan, machines: int, contenders: Sequence[Contender]) -> Film:
    def blank() -> Curves:
        return np.zeros((span.stop - span.first, machines), np.float32)

    return Film(span.first, blank(), blank(), {label: blank() for label in (ORACLE, *(c.label for c in contenders))})


def _record(film: Film, moment: JudgedMoment, came: NDArray[np.float64], machines: int) -> None:
    at = moment.cell - film.first
    film.usage[at] = by_machine(moment.members.machine, moment.usage, machines)
    film.limits[at] = moment.limits
    film.peaks[ORACLE][at] = came
