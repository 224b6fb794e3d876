"""A pool's autonomy: observe, throttle, evict; and the automatic step back from evict when a guard
trips. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from slackwater.decisions.reasons import Mode

HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class AutonomyPolicy:
    """What an operator grants a pool. `generation` rises when it is changed: a human has looked, guards start anew.

    evictions_per_hour  in the whole pool; more is a storm
    reliefs_missed      evictions in a row after which the metric did not come down: they do not help
    hold_seconds        how long a step back lasts; then eviction is tried again
    """

    mode: Mode = Mode.OBSERVE
    generation: int = 0
    evictions_per_hour: int = 50
    reliefs_missed: int = 5
    hold_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class AutonomyState:
    """`stepped_back_at`: since when the pool only throttles although eviction is granted; `because`
    names the guard.
    """

    generation: int = 0
    evictions_at: tuple[datetime, ...] = ()
    missed_in_a_row: int = 0
    stepped_back_at: datetime | None = None
    because: str = ""


def mode_of(state: AutonomyState, policy: AutonomyPolicy) -> Mode:
    """Returns what the pool may do now: never more than was granted."""
    return Mode.THROTTLE if policy.mode is Mode.EVICT and state.stepped_back_at is not None else policy.mode


def evicted(state: AutonomyState, policy: AutonomyPolicy, now: datetime) -> AutonomyState:
    """Returns the state with one more eviction begun."""
    return review_step_back(replace(state, evictions_at=(*state.evictions_at, now)), policy, now)


def effect_seen(state: AutonomyState, policy: AutonomyPolicy, now: datetime, *, relieved: bool) -> AutonomyState:
    """Returns the state with the effect of an eviction. While the pool has stepped back, effects of earlier evictions
    count no more: the count stays the one that the step back names."""
    reviewed = review_step_back(state, policy, now)
    if reviewed.stepped_back_at is not None:
        return reviewed
    missed = 0 if relieved else reviewed.missed_in_a_row + 1
    return review_step_back(replace(reviewed, missed_in_a_row=missed), policy, now)


def review_step_back(state: AutonomyState, policy: AutonomyPolicy, now: datetime) -> AutonomyState:
    """Returns the state of a new cycle: drops old entries, steps back if a guard trips, and forward
    again after the hold.
    """
    if policy.generation != state.generation:
        return AutonomyState(policy.generation, _recent(state, now))
    state = replace(state, evictions_at=_recent(state, now))
    if state.stepped_back_at is not None:
        if (now - state.stepped_back_at).total_seconds() < policy.hold_seconds:
            return state
        state = replace(state, stepped_back_at=None, because="", missed_in_a_row=0)
    why = _tripped(state, policy)
    return state if not why else replace(state, stepped_back_at=now, because=why)


def _recent(state: AutonomyState, now: datetime) -> tuple[datetime, ...]:
    return tuple(at for at in state.evictions_at if now - at < HOUR)


def _tripped(state: AutonomyState, policy: AutonomyPolicy) -> str:
    if policy.mode is not Mode.EVICT:
        return ""
    if len(state.evictions_at) > policy.evictions_per_hour:
        return f"{len(state.evictions_at)} evictions within an hour; allowed: {policy.evictions_per_hour}"
    if state.missed_in_a_row >= policy.reliefs_missed:
        return f"{state.missed_in_a_row} evictions in a row brought no relief"
    return ""
