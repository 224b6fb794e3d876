"""Which of several ways to lend is advised, and why: the one that lends most within the risk that was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

USUAL_ACCEPTED = 0.001
"""Of the minutes of nodes: in so many, prod and every offer together may be more than a node has."""
LONGEST_MINUTES = 10.0
"""Two control periods of a trace: how long that may last without a break."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to lend: how much of a node may be in use (percent), and what predicts peaks, with its settings."""

    percent: int
    model: str

    @property
    def name(self) -> str:
        return f"{self.percent} %, {self.model}"


@dataclass(frozen=True, slots=True)
class RatedChoice:
    """A choice for one resource, on data that it had not seen when it decided. Shares are 0..1.

    `violation` is the share of moments after which 24 hours came that went above the predicted peak, `severity` by
    which share of what came the prediction was short, over all of them; None where the history is too short to say.
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
        """Whether it was never too much for longer or more often than is accepted."""
        return self.exceeded_share <= accepted and self.longest_episode_minutes <= LONGEST_MINUTES


@dataclass(frozen=True, slots=True)
class Advice:
    """Which one, and why that and no other."""

    choice: Choice
    reason: str


def advise(judged: Sequence[RatedChoice], accepted: float, *, cautious: str = "") -> Advice | None:
    """The first of `judged` is the usual one. `cautious` says why no other is advised, whatever it did here.

    None: even the usual one was too much.
    """
    usual = judged[0]
    within = [one for one in judged if one.within(accepted)]
    if not within:
        return None
    best = max(within, key=lambda one: (one.reclaimable_share, -one.exceeded_share))
    if cautious and usual in within:
        return Advice(usual.choice, f"{cautious}; begin with the usual one and look again")
    bolder = [one for one in judged if one.reclaimable_share > best.reclaimable_share]
    said = f"{best.reclaimable_share:.1%} of the capacity could be lent; {_risk(best)}"
    if not bolder:
        return Advice(best.choice, f"{said}; nothing that was tried lends more")
    next_one = min(bolder, key=lambda one: one.reclaimable_share)
    more = next_one.reclaimable_share - best.reclaimable_share
    bold = f"{next_one.choice.name} lends {more * 100:.1f} points more, but {_risk(next_one)}"
    return Advice(best.choice, f"{said}; {bold}")


def _risk(one: RatedChoice) -> str:
    if not one.exceeded_minutes:
        return "never beyond a node's capacity"
    longest = f"at most {one.longest_episode_minutes:.0f} minutes on end"
    return f"beyond a node's capacity in {one.exceeded_share:.3%} of its minutes, {longest}"
