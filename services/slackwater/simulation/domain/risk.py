"""Recommends, of several settings, the one that lends most within the accepted risk, with the reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

USUAL_ACCEPTED = 0.001
"""Default of the accepted risk: the share of node minutes in which prod plus all offers may exceed the capacity."""
LONGEST_MINUTES = 10.0
"""The longest accepted excess without a break: two control periods of a trace."""

LONG_DAYS = 14
"""Days of history that show a weekly pattern twice."""
LEAST_HEADROOM_PERCENT = 10
"""Points of a node that a recommendation always leaves free: for the system, new workloads, and a day worse than any
recorded."""


def headroom_percent(days: float) -> int:
    """Returns the points of a node that a recommendation from so many days of history leaves free.

    10 from two weeks on, below that 10 x sqrt(14 / days), rounded up: the error of an estimate grows with the root of
    the missing data. 8 days: 14; 7 days: 15; 1 day: 38. At most 100.
    """
    known = min(LONG_DAYS, max(days, 0.01))
    return min(100, math.ceil(LEAST_HEADROOM_PERCENT * math.sqrt(LONG_DAYS / known) - 1e-9))


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings to compare: the reclaim threshold in percent, and the peak model with its settings."""

    percent: int
    model: str

    @property
    def name(self) -> str:
        return f"{self.percent} %, {self.model}"


@dataclass(frozen=True, slots=True)
class RatedChoice:
    """The result of a choice for one resource, on later data than it was computed from. Shares are 0..1.

    `violation` is the share of instants whose next 24 hours exceeded the predicted peak. `severity` is the mean
    shortfall as a share of the actual peak. Both are None if the history is too short.
    """

    choice: Choice
    reclaimable_share: float
    reclaimable_hours: float
    violation: float | None
    severity: float | None
    exceeded_share: float
    exceeded_minutes: float
    longest_episode_minutes: float
    changes_per_hour: float

    def within(self, accepted: float) -> bool:
        """Returns whether the excess stayed within the accepted share and duration."""
        return self.exceeded_share <= accepted and self.longest_episode_minutes <= LONGEST_MINUTES


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommended choice, with the reason."""

    choice: Choice
    reason: str


def advise(judged: Sequence[RatedChoice], accepted: float, *, headroom: int = 0, cautious: str = "") -> Advice | None:
    """Returns the recommended choice; None if even the default exceeded the accepted risk.

    The first of `judged` is the default. Other choices leave at least `headroom` points of a node free. `cautious`, if
    not empty, is the reason why only the default may be advised.
    """
    usual = judged[0]
    allowed = [usual, *(rated for rated in judged[1:] if rated.choice.percent <= 100 - headroom)]
    within = [rated for rated in allowed if rated.within(accepted)]
    if not within:
        return None
    best = max(within, key=lambda rated: (rated.reclaimable_share, -rated.exceeded_share))
    if cautious and usual in within:
        return Advice(usual.choice, f"{cautious}; start with the default and assess again later")
    bolder = [rated for rated in judged if rated.reclaimable_share > best.reclaimable_share]
    result = f"{best.reclaimable_share:.1%} of the capacity could be lent; {_risk(best)}"
    if not bolder:
        return Advice(best.choice, f"{result}; no tested setting lends more")
    next_bolder = min(bolder, key=lambda rated: rated.reclaimable_share)
    more = next_bolder.reclaimable_share - best.reclaimable_share
    cost = _risk(next_bolder)
    if next_bolder not in allowed:
        cost = f"leaves less than {headroom} % of a node free, and is {cost}"
    bold = f"{next_bolder.choice.name} lends {more * 100:.1f} points more, but {cost}"
    return Advice(best.choice, f"{result}; {bold}")


def _risk(rated: RatedChoice) -> str:
    if not rated.exceeded_minutes:
        return "never beyond a node's capacity"
    longest = f"at most {rated.longest_episode_minutes:.0f} minutes without a break"
    return f"beyond a node's capacity in {rated.exceeded_share:.3%} of its minutes, {longest}"
