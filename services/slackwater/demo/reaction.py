"""Reaction times of the control loop, computed from polled quotas and pressure samples. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slackwater.demo.summary import Reaction


@dataclass(frozen=True, slots=True)
class ObservedQuotaChange:
    """The CPU limit of a pod observed at `at` (monotonic seconds); None = unlimited."""

    at: float
    pod: str
    limit_milli: int | None


@dataclass(frozen=True, slots=True)
class PressureSample:
    """The share of (`began`, `ended`] (monotonic seconds) in which some prod task was stalled."""

    began: float
    ended: float
    some: float


def reaction(
    changes: Sequence[ObservedQuotaChange],
    pressures: Sequence[PressureSample],
    originals: Mapping[str, int | None],
    surge: tuple[float, float],
    waterline: float,
) -> Reaction:
    """The reaction times of a surge, see `Reaction`. A quota that was low before and did not decrease counts as 0 s."""
    began, ended = surge
    lowered = _lowered_at(changes, originals, surge)
    if lowered is None:
        return Reaction()
    relief = next((p.ended for p in pressures if p.began >= lowered and p.some <= waterline), None)
    restored = _restored_at(changes, originals)
    return Reaction(
        seconds_to_lowered=round(max(0.0, lowered - began), 3),
        seconds_to_relief=None if relief is None or relief > ended + 1 else round(relief - began, 3),
        seconds_to_restored=None if restored is None else round(max(0.0, restored - ended), 3),
    )


def _lowered_at(
    changes: Sequence[ObservedQuotaChange], originals: Mapping[str, int | None], surge: tuple[float, float]
) -> float | None:
    """The time of the first decrease of a quota in the surge; the start if one was low and none decreased further."""
    began, ended = surge
    known = dict(originals)
    low_at_start = False
    for change in changes:
        if change.at > ended:
            break
        if change.at >= began and _below(change.limit_milli, known.get(change.pod)):
            return change.at
        known[change.pod] = change.limit_milli
        if change.at < began:
            low_at_start = any(_below(known[pod], originals.get(pod)) for pod in known)
    return began if low_at_start else None


def _below(limit_milli: int | None, other: int | None) -> bool:
    return limit_milli is not None and (other is None or limit_milli < other)


def _restored_at(changes: Sequence[ObservedQuotaChange], originals: Mapping[str, int | None]) -> float | None:
    """The time at which the last quota was restored; None while any differs from its original."""
    last = {change.pod: change for change in changes}
    if any(change.limit_milli != originals.get(pod) for pod, change in last.items()):
        return None
    return max((change.at for change in last.values()), default=None)
