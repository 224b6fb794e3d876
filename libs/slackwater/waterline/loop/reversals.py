"""Damps the reversals of a node's limits, so that they do not flap. Pure.

A reversal is a limit lowered after limits have risen. Lowering is never delayed, because prod comes first; rises are.
A reversal raises the node's damping level by one, after it lost one for each whole `damping_most_seconds` since limits
last fell, and then no limit rises into headroom for

    damping_seconds x 2 ^ (level - 1), at most damping_most_seconds

Surges of prod's demand are no flapping, and slack is lent again as soon as the demand is gone: their reversals do not
count while the node has credit, `surges_per_hour` of them at once and as many in each further hour. Without credit
they are damped like the others. So the reversals of a node in any time are bounded (`most_reversals`), whatever its
load does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from slackwater.model.records import record

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class DampingPolicy:
    """The first wait after a reversal and the longest, and the reversals for surges that are not damped, as in
    `spec.throttle` of the cluster's NodeQOS. Waits of 0: nothing is damped.
    """

    damping_seconds: float = 15.0
    damping_most_seconds: float = 120.0
    surges_per_hour: int = 30

    @property
    def most_level(self) -> int:
        """The level from which waits no longer grow."""
        if self.damping_seconds <= 0 or self.damping_most_seconds <= self.damping_seconds:
            return 1
        return 1 + math.ceil(math.log2(self.damping_most_seconds / self.damping_seconds))


@record(frozen=True, slots=True)
class Damping:
    """has_risen    limits have risen since they last fell
    is_surge     ... because prod's demand was gone, or without effect
    level        damped reversals in a row, less one for each `damping_most_seconds` in which no limit fell
    reversed_at  the last damped reversal
    fell_at      when limits last fell; None: before this was kept
    surges_until when the credit for surges is whole again (a leaky bucket)
    """

    has_risen: bool = False
    is_surge: bool = False
    level: int = 0
    reversed_at: datetime | None = None
    surges_until: datetime | None = None
    fell_at: datetime | None = None

    def until(self, policy: DampingPolicy) -> datetime | None:
        """Returns the time before which no limit rises into headroom. None: no reversal yet."""
        if self.reversed_at is None:
            return None
        return self.reversed_at + timedelta(seconds=wait_seconds(self.level, policy))

    def is_waiting(self, policy: DampingPolicy, now: datetime) -> bool:
        """Returns whether limits may not rise into headroom. A reversal in the future was recorded before the clock was
        set back, and is ignored.
        """
        until = self.until(policy)
        return until is not None and self.reversed_at is not None and self.reversed_at <= now < until

    def has_credit(self, policy: DampingPolicy, now: datetime) -> bool:
        """Returns whether the reversal for one more surge is not damped."""
        if policy.surges_per_hour <= 0:
            return False
        step = HOUR_SECONDS / policy.surges_per_hour
        owed = 0.0 if self.surges_until is None else (self.surges_until - now).total_seconds()
        return owed + step <= HOUR_SECONDS


def reversal_of(before: Damping, after: Damping, policy: DampingPolicy) -> str:
    """Returns which reversal lies between two states: `surge`, `damped`, `longest` (damped by the longest wait), or
    nothing.
    """
    if before.surges_until != after.surges_until:
        return "surge"
    if before.reversed_at == after.reversed_at:
        return ""
    return "longest" if after.level >= policy.most_level else "damped"


def wait_seconds(level: int, policy: DampingPolicy) -> float:
    """Returns the wait after a reversal that led to `level`."""
    if level <= 0:
        return 0.0
    doubled = policy.damping_seconds * 2.0 ** min(level - 1, policy.most_level)
    return min(policy.damping_most_seconds, doubled)


def after_rise(damping: Damping, *, is_surge: bool = False) -> Damping:
    """Returns the damping after limits rose. `is_surge`: because prod's demand was gone, or without effect."""
    return replace(damping, has_risen=True, is_surge=is_surge or (damping.has_risen and damping.is_surge))


def after_fall(damping: Damping, policy: DampingPolicy, now: datetime, *, is_new_demand: bool = False) -> Damping:
    """Returns the damping after limits fell; a reversal if they had risen before. `is_new_demand`: because prod's
    demand grew.
    """
    if not damping.has_risen:
        return replace(damping, fell_at=now)
    fallen = replace(damping, has_risen=False, is_surge=False, fell_at=now)
    if (damping.is_surge or is_new_demand) and damping.has_credit(policy, now):
        step = timedelta(seconds=HOUR_SECONDS / policy.surges_per_hour)
        return replace(fallen, surges_until=max(now, damping.surges_until or now) + step)
    return replace(fallen, level=min(policy.most_level, _decayed(damping, policy, now) + 1), reversed_at=now)


def most_reversals(seconds: float, policy: DampingPolicy) -> float:
    """Returns the most reversals within any `seconds`; math.inf without waits.

    Damped ones: the level rises to its end once, and then a wait of `damping_most_seconds` passes for each, because a
    level is only lost by as long a calm. Those for surges: the whole credit at once, and what comes back meanwhile.
    """
    if policy.damping_seconds <= 0 or policy.damping_most_seconds <= 0:
        return math.inf
    damped = policy.most_level + 1 + math.floor(seconds / policy.damping_most_seconds)
    surges = max(0, policy.surges_per_hour)
    return damped + (surges + math.floor(seconds * surges / HOUR_SECONDS) + 1 if surges else 0)


def _decayed(damping: Damping, policy: DampingPolicy, now: datetime) -> int:
    if damping.reversed_at is None or policy.damping_most_seconds <= 0:
        return 0
    calm = max(0.0, (now - (damping.fell_at or damping.reversed_at)).total_seconds())
    return max(0, damping.level - int(calm // policy.damping_most_seconds))
