"""What the planner answers: the changes, and everything that is needed to explain them."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.waterline.state import GuardState


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A pod's limit before and after (None = as it was originally, out of our list), in milli-cores.

    `released_milli` is what the change takes from the pod: positive for a throttle, negative for what it gets back.
    """

    uid: str
    name: str
    tier: str
    before_milli: int | None
    after_milli: int | None
    released_milli: int


@dataclass(frozen=True, slots=True)
class Spared:
    """A pod that was looked at and left alone."""

    uid: str
    name: str
    because: str


@dataclass(frozen=True, slots=True)
class Plan:
    """`kind` None: nothing to do, `idle_because` says why. `carried_out` False: mode observe, only told.

    `gap_milli` is what the metric asks for, without the excess; `remaining_milli` the part of it that is still open.
    `forgotten` are throttled pods that are no longer on the node.
    """

    kind: DecisionKind | None = None
    reason: Reason | None = None
    rule: str = ""
    metric: str = ""
    reading: float | None = None
    waterline: float = 0.0
    gap_milli: int = 0
    changes: tuple[LimitChange, ...] = ()
    spared: tuple[Spared, ...] = ()
    remaining_milli: int = 0
    remaining_because: str = ""
    carried_out: bool = False
    forgotten: tuple[str, ...] = ()
    idle_because: str = ""

    @property
    def released_milli(self) -> int:
        return sum(change.released_milli for change in self.changes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan and the state that follows if it is carried out."""

    plan: Plan
    state: GuardState
