"""What the planner remembers of a node between two snapshots. Its limits are the truth about what is throttled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class RuleCount:
    """Consecutive samples of one rule, each capped at its threshold. `missing` says why the last one did not count."""

    rule: str
    above: int = 0
    at_or_below: int = 0
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Throttled:
    """A limit in force (or on its way), and the one to go back to (None = unlimited)."""

    uid: str
    name: str
    tier: str
    limit_milli: int
    original_limit_milli: int | None


@dataclass(frozen=True, slots=True)
class GuardState:
    """`throttles` is in no particular order. All times are UTC and come from the `now` that the planner was given.

    demand_at_trigger_milli  what prod wanted when the waterline was last crossed: usage / (1 - pressure)
    pending_since            limits were changed then and the node has not confirmed them yet
    settled_at               when the node confirmed its last change: older samples do not show it
    backoff                  how many raises in a row were answered by a new trigger
    told                     pods named in would-be decisions of this episode (mode observe)
    exhausted_told           this episode has already reported a gap that nobody could close
    refused                  pods whose limit the node could not write in this episode
    """

    counts: tuple[RuleCount, ...] = ()
    throttles: tuple[Throttled, ...] = ()
    demand_at_trigger_milli: int = 0
    last_trigger_at: datetime | None = None
    last_raise_at: datetime | None = None
    backoff: int = 0
    pending_since: datetime | None = None
    settled_at: datetime | None = None
    told: tuple[str, ...] = ()
    exhausted_told: bool = False
    refused: tuple[str, ...] = ()

    def limit_of(self, uid: str) -> int | None:
        """The limit of ours on a pod, None if there is none."""
        return next((t.limit_milli for t in self.throttles if t.uid == uid), None)


def refused(state: GuardState, uid: str, in_force_milli: int | None) -> GuardState:
    """The node could not write this pod's limit; what is in force is what it read back (None = no limit)."""
    kept = tuple(
        replace(t, limit_milli=in_force_milli or t.limit_milli) if t.uid == uid else t
        for t in state.throttles
        if t.uid != uid or in_force_milli is not None
    )
    return replace(state, throttles=kept, refused=tuple(sorted({*state.refused, uid})))


def confirmed(state: GuardState, observed_at: datetime) -> GuardState:
    """The node has carried out everything that was asked, its last write at `observed_at`."""
    return replace(state, pending_since=None, settled_at=observed_at)
