"""Duration and load of each phase, from the available seconds and the CPU cost of one request. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slackwater.demo.load import percentile

FULL_SECONDS = 90
MEMORY_SECONDS, MEMORY_PAIR_SECONDS = 60, 25
"""From so many seconds on the memory scene has its turns, and about what a pair of them takes."""
COMPARED_SECONDS, _COMPARED_SHARE = 110, 0.66
_LEAST_SECONDS, DEFAULT_SECONDS = 20, 120
_SURE_SURGE_SECONDS = 8.0
_AGAIN_PATIENCE_SECONDS = 15.0
_START_SECONDS, _LEAD_SECONDS, _BETWEEN_SECONDS, _OFFERS_SECONDS = 20.0, 0.6, 1.5, 8.0
"""Seconds to start the service and measure its cost; before each load; between the surges of a pair; for the first
offers at the end."""
_LAST_RESTORES_SECONDS = 50.0
"""Seconds by which the last two surges of the comparison, begun in time, may exceed the deadline."""
OVERTIME_SECONDS = 200
"""Limit of `longest` above the requested duration."""
EXCESS_RATIO = 1.0
"""Release twice the measured gap: "some" pressure is a lower bound, and a surge of seconds leaves few cycles."""
REST_LOAD = 0.05
SURGE_LOAD, _LEAST_SURGE_LOAD = 0.60, 0.30
LEFT_TO_BATCH = 1 / 3
REQUEST_SECONDS = 0.0075
"""Target CPU time of one request. A stall caused by batch lasts about one time slice of 3 ms: short requests show it
clearly in pressure (0.08 at 3 ms, 0.05 at 6 ms, 0.03 at 8 ms next to batch at tier weight, 0.01 to 0.02 alone), long
ones are delayed less in proportion. With 6 ms, one run of five missed its limit on two CPUs."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds of each part. Every phase is a rest and the same surge; a rest follows the last surge.

    `first` is a shorter surge that measures only the pressure that the service causes by itself.
    """

    rest: float
    first: float
    surge: float
    settle: float
    restore_patience: float
    comparison: float = 0.0
    """For the comparison of the two policies; 0: it is skipped."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests per second at rest and in the surge."""

    rest: float
    surge: float


def lengths(seconds: int | None) -> Lengths:
    """The parts of a run. 90 s fit the first surge and four of 11.5 s; other durations scale, down to surges of 2.6 s.

    From 110 s on, and without a limit, most of the time is for the comparison of the two policies.
    """
    given = max(_LEAST_SECONDS, seconds or DEFAULT_SECONDS)
    comparison = max(given - FULL_SECONDS, _COMPARED_SHARE * given) if given >= COMPARED_SECONDS else 0.0
    scale = (given - comparison) / FULL_SECONDS
    rest, first, surge, settle = max(1.0, 3.0 * scale), max(2.0, 6.0 * scale), 11.5 * scale, max(0.5, 1.0 * scale)
    return Lengths(rest, first, surge, settle, restore_patience=45.0, comparison=comparison)


def has_memory(seconds: int | None) -> bool:
    """Whether a run of all scenes has time for the memory scene."""
    return seconds is None or seconds >= MEMORY_SECONDS


def cpu_seconds(seconds: int | None, scene: str) -> int | None:
    """The seconds that the CPU scene has of `seconds`, beside the memory scene where both run."""
    if seconds is None or scene == "cpu" or not has_memory(seconds):
        return seconds
    return seconds - MEMORY_PAIR_SECONDS


def compared_from(scene: str) -> int:
    """From so many seconds on the two policies are compared."""
    return COMPARED_SECONDS + (0 if scene == "cpu" else MEMORY_PAIR_SECONDS)


def memory_pairs(seconds: int | None, *, alone: bool) -> int:
    """How often the memory scene runs each variant."""
    return min(3, max(1, int((seconds or 2 * MEMORY_PAIR_SECONDS) / MEMORY_PAIR_SECONDS))) if alone else 1


def in_doubt(given: Lengths) -> Lengths:
    """The parts of the two pairs that are repeated if the first is out of bounds: just long enough for a p99.

    The p99 of the shortest surge depends on five requests. The first pair has already measured the restore.
    """
    return replace(
        given, surge=_SURE_SURGE_SECONDS, restore_patience=min(given.restore_patience, _AGAIN_PATIENCE_SECONDS)
    )


def longest(seconds: int) -> float:
    """Upper bound of the duration of the measurements in seconds, with every wait at its timeout."""
    given = lengths(seconds)
    again = in_doubt(given)

    def pair(parts: Lengths) -> float:
        return 2 * (_LEAD_SECONDS + parts.rest + parts.surge) + _BETWEEN_SECONDS + parts.settle + parts.restore_patience

    shared = given.rest + given.first + 2 * (given.rest + given.surge) + given.settle + 3 * _LEAD_SECONDS
    compared = given.comparison + _LAST_RESTORES_SECONDS if given.comparison else 0.0
    return _START_SECONDS + shared + pair(given) + 2 * pair(again) + compared + _OFFERS_SECONDS


def rates(cpus: int, seconds_per_request: float) -> Rates:
    """The request rates that load `cpus` to 5 % and 60 % at this CPU cost per request."""
    capacity = cpus / seconds_per_request
    return Rates(rest=REST_LOAD * capacity, surge=SURGE_LOAD * capacity)


def compared(cpus: int, seconds_per_request: float, other_cpus: float, kept_cpus: float, batch_cpus: float) -> Rates:
    """The request rates for the comparison: the surge leaves batch a third of its demand `batch_cpus`.

    `other_cpus` is used by everything else, `kept_cpus` is the target. If a surge needed all of batch's CPU, both
    policies would act alike. Rates are at most those of the phases and at least 30 % of the machine.
    """
    room = kept_cpus - other_cpus - LEFT_TO_BATCH * batch_cpus
    prod = min(SURGE_LOAD * cpus, max(_LEAST_SURGE_LOAD * cpus, room))
    return Rates(rest=REST_LOAD * cpus / seconds_per_request, surge=prod / seconds_per_request)


def waterline(alone: Sequence[float]) -> float:
    """The waterline on prod's CPU pressure, from its one-second samples without batch.

    The lower quartile is the pressure that prod causes itself, even if other work disturbed part of the samples. On a
    quiet virtual machine with two CPUs it is 0.01 to 0.02; next to batch at tier weight single seconds reach 0.03 to
    0.17.
    """
    own = percentile(alone, 0.25) if alone else 0.0
    return round(min(0.10, max(0.02, 1.25 * own + 0.010)), 3)
