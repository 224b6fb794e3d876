"""Evaluates all models under one placement, in one pass: each model folds a cell and then predicts its peaks."""

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
"""The label of the perfect forecast."""
PROGRESS_CELLS = 32
"""Cells between two updates of the progress display."""

Curves = NDArray[np.float32]


@dataclass(slots=True)
class Film:
    """Usage, limits and predicted peaks of the evaluated cells, for charts: (cells, machines)."""

    first: int
    usage: Curves
    limits: Curves
    peaks: dict[str, Curves]
    """By label, including the oracle."""


@dataclass(slots=True)
class JudgedPlacement:
    """The results of all models under one placement."""

    machines: int
    scores: dict[str, ErrorScores]
    seconds: dict[str, float]
    """CPU time of each model, by label."""
    film: Film | None


@dataclass(slots=True)
class _Seat:
    """A model with its error sums."""

    model: PeakModel
    tally: ErrorTally
    seconds: float = 0.0
    film: Curves | None = field(default=None)


@dataclass(frozen=True, slots=True)
class JudgedMoment:
    """One cell as the models receive it."""

    cell: int
    at_seconds: float
    members: Members
    mistaken: Members
    """`members` with the workload keys that predictions use."""
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
    """Evaluates the models. `keys` maps each workload to the workload whose history predictions use.

    Raises ValueError, with the model's label, if a predicted peak is not a number.
    """
    actual = oracle(trace.usage, stays)
    oracle_tally = ErrorTally(stays.machines)
    film = _empty_film(span, stays.machines, contenders) if filmed else None
    seats = {
        contender.label: _Seat(
            contender.make(), ErrorTally(stays.machines), film=film.peaks[contender.label] if film else None
        )
        for contender in contenders
    }
    for moment in moments(trace, stays, span.stop, keys):
        judged = moment.cell >= span.first
        if judged:
            oracle_tally.add(actual[moment.cell], actual[moment.cell], moment.limits)
            if film:
                _record(film, moment, actual[moment.cell], stays.machines)
        for label, seat in seats.items():
            _step(label, seat, moment, actual[moment.cell], stopwatch, judged=judged, at=moment.cell - span.first)
        if (moment.cell + 1) % PROGRESS_CELLS == 0:
            watch.advance(PROGRESS_CELLS)
    watch.advance(span.stop % PROGRESS_CELLS)
    scores = {ORACLE: oracle_tally.scores()} | {label: seat.tally.scores() for label, seat in seats.items()}
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
    """Folds and predicts one cell. Predicts during warm-up too, because calibrated models learn from their errors."""
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
    """Yields every cell before `stop`."""
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
