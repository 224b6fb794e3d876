"""How long each phase lasts and how hard it is, from the seconds given and from what one request costs: pure."""

from __future__ import annotations

from dataclasses import dataclass

FULL_SECONDS = 90
_LEAST_SECONDS = 20
REST_LOAD = 0.10
SURGE_LOAD = 0.55
REQUEST_SECONDS = 0.006
"""CPU time of one request that the service aims at: long against scheduling, short against a person's patience."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds of each part. Every phase is a rest and the same surge; after the last surge the load rests again."""

    rest: float
    surge: float
    settle: float
    restore_patience: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests a second at rest and in the surge."""

    rest: float
    surge: float


def lengths(seconds: int | None) -> Lengths:
    """90 s hold four surges of 13 s; other durations scale, down to surges of 3 s."""
    scale = max(_LEAST_SECONDS, seconds or FULL_SECONDS) / FULL_SECONDS
    return Lengths(rest=max(1.0, 3.0 * scale), surge=13.0 * scale, settle=max(0.5, 1.0 * scale), restore_patience=20.0)


def rates(cpus: int, seconds_per_request: float) -> Rates:
    """Rates that load `cpus` to 10 % and 55 % with requests of this CPU cost."""
    capacity = cpus / seconds_per_request
    return Rates(rest=REST_LOAD * capacity, surge=SURGE_LOAD * capacity)


def waterline(alone_pressure: float) -> float:
    """The pressure above which prod suffers from others: well above what it causes itself, never above 0.10.

    `alone_pressure` is the median of the one-second samples in the surge without any neighbour. On a quiet machine
    it is 0.01 to 0.02, next to batch at tier weight 0.05 to 0.10.
    """
    return round(min(0.10, max(0.03, 1.5 * alone_pressure + 0.02)), 3)
