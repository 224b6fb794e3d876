"""How long each phase lasts and how hard it is, from the seconds given and from what one request costs: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slackwater.demo.load import percentile

FULL_SECONDS = 90
COMPARED_SECONDS, _COMPARED_SHARE = 110, 0.66
_LEAST_SECONDS, DEFAULT_SECONDS = 20, 120
_SURE_SURGE_SECONDS = 8.0
_AGAIN_PATIENCE_SECONDS = 15.0
_START_SECONDS, _LEAD_SECONDS, _BETWEEN_SECONDS, _OFFERS_SECONDS = 20.0, 0.6, 1.5, 8.0
"""The service and its cost; before each load; between the two surges of a pair; for the first offers at the end."""
_LAST_RESTORES_SECONDS = 50.0
"""Of the last two surges of the comparison, which began in time."""
OVERTIME_SECONDS = 200
"""`longest` is at most so much more than what was asked for."""
EXCESS_RATIO = 1.0
"""Release twice the measured gap: "some" pressure is a lower bound, and a surge of seconds leaves few cycles."""
REST_LOAD = 0.05
SURGE_LOAD, _LEAST_SURGE_LOAD = 0.60, 0.30
LEFT_TO_BATCH = 1 / 3
REQUEST_SECONDS = 0.0075
"""CPU time of one request that the service aims at. A wait for batch lasts about a time slice of some 3 ms: short
requests show it clearly in pressure (0.08 at 3 ms, 0.05 at 6 ms, 0.03 at 8 ms next to batch at tier weight, 0.01 to
0.02 alone), long ones suffer less from it in proportion. With 6 ms one run of five missed its limit on two CPUs."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds of each part. Every phase is a rest and the same surge; after the last surge the load rests again.
    `first` is the shorter surge that only tells what pressure the service makes by itself."""

    rest: float
    first: float
    surge: float
    settle: float
    restore_patience: float
    comparison: float = 0.0
    """For the two policies in turn; 0: they are left out."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests a second at rest and in the surge."""

    rest: float
    surge: float


def lengths(seconds: int | None) -> Lengths:
    """90 s hold the first surge and four of 11.5 s; other durations scale, down to surges of 2.6 s. From 110 s on (and
    without an end) most of the time is for the two policies in turn."""
    given = max(_LEAST_SECONDS, seconds or DEFAULT_SECONDS)
    comparison = max(given - FULL_SECONDS, _COMPARED_SHARE * given) if given >= COMPARED_SECONDS else 0.0
    scale = (given - comparison) / FULL_SECONDS
    rest, first, surge, settle = max(1.0, 3.0 * scale), max(2.0, 6.0 * scale), 11.5 * scale, max(0.5, 1.0 * scale)
    return Lengths(rest, first, surge, settle, restore_patience=45.0, comparison=comparison)


def in_doubt(given: Lengths) -> Lengths:
    """For the two pairs that are measured again because of a doubt: long enough for a p99 (that of the shortest surge
    hangs on five requests), and no longer. How long a restore takes was measured in the first pair."""
    return replace(
        given, surge=_SURE_SURGE_SECONDS, restore_patience=min(given.restore_patience, _AGAIN_PATIENCE_SECONDS)
    )


def longest(seconds: int) -> float:
    """Upper bound of the measurements in seconds: everything waited for as long as it is waited for at all."""
    given = lengths(seconds)
    again = in_doubt(given)

    def pair(parts: Lengths) -> float:
        return 2 * (_LEAD_SECONDS + parts.rest + parts.surge) + _BETWEEN_SECONDS + parts.settle + parts.restore_patience

    shared = given.rest + given.first + 2 * (given.rest + given.surge) + given.settle + 3 * _LEAD_SECONDS
    compared = given.comparison + _LAST_RESTORES_SECONDS if given.comparison else 0.0
    return _START_SECONDS + shared + pair(given) + 2 * pair(again) + compared + _OFFERS_SECONDS


def rates(cpus: int, seconds_per_request: float) -> Rates:
    """Rates that load `cpus` to 5 % and 60 % with requests of this CPU cost."""
    capacity = cpus / seconds_per_request
    return Rates(rest=REST_LOAD * capacity, surge=SURGE_LOAD * capacity)


def compared(cpus: int, seconds_per_request: float, other_cpus: float, kept_cpus: float, batch_cpus: float) -> Rates:
    """Rates for the two policies in turn: with `other_cpus` used by everything else and `kept_cpus` to be used at most,
    the surge leaves batch a third of the `batch_cpus` that it wants. Where a surge needs all of it, every policy does
    the same. Never above the surges of the phases, nor below 30 % of the machine."""
    room = kept_cpus - other_cpus - LEFT_TO_BATCH * batch_cpus
    prod = min(SURGE_LOAD * cpus, max(_LEAST_SURGE_LOAD * cpus, room))
    return Rates(rest=REST_LOAD * cpus / seconds_per_request, surge=prod / seconds_per_request)


def waterline(alone: Sequence[float]) -> float:
    """The pressure above which prod suffers from others, from its one-second samples without any neighbour.

    The lower quartile is what prod causes itself, even if something else was busy for a part of the time. On a quiet
    virtual machine with two CPUs it is 0.01 to 0.02; next to batch at tier weight single seconds reach 0.03 to 0.17.
    """
    own = percentile(alone, 0.25) if alone else 0.0
    return round(min(0.10, max(0.02, 1.25 * own + 0.010)), 3)
