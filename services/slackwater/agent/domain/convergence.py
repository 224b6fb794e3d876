"""From what all writers want to what has to be written: level-triggered, idempotent, pure.

Several writers may throttle one pod: the lowest limit wins, and a throttle never raises a limit above what it was
before us. A writer whose lease has run out is not obeyed and not forgotten at once: its limits rise with every full
second by a quarter of the node, until they no longer bind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from slackwater.agent.domain.journal import Journal
from slackwater.agent.domain.knobs import Knob
from slackwater.agent.domain.waterlines import Waterline
from slackwater.agent.domain.weights import Policy

RESTORE_STEP = 0.25
"""Share of the node's CPU by which the limits of a lapsed lease rise per second."""

_PROTECTION = (Policy.BY_REQUEST, Policy.BY_TIER, Policy.BY_TIER_IDLE)
"""The more prod is protected, the later."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """The wanted CPU limit of one pod and the decision behind it."""

    pod_uid: str
    limit_milli: int
    decision_id: str


@dataclass(frozen=True, slots=True)
class DesiredState:
    """One writer's newest document, with the monotonic time of its receipt."""

    writer: str
    generation: int
    received: float
    lease_seconds: float
    policy: Policy
    throttles: tuple[Throttle, ...] = ()
    waterlines: tuple[Waterline, ...] = ()

    def lapsed_seconds(self, now: float) -> float:
        """How long ago the lease ran out; negative while it lives."""
        return now - self.received - self.lease_seconds

    def alive(self, now: float) -> bool:
        return self.lapsed_seconds(now) < 0


@dataclass(frozen=True, slots=True)
class Target:
    """The limit that wins on one pod, and whose it is."""

    limit_milli: int
    writer: str
    decision_id: str


def eased(limit_milli: int, lapsed_seconds: float, capacity_milli: int) -> int:
    """A limit so long after its lease: one step at once, one more per full second."""
    if lapsed_seconds < 0:
        return limit_milli
    steps = math.floor(lapsed_seconds) + 1
    return limit_milli + math.ceil(steps * RESTORE_STEP * capacity_milli)


def targets(
    wishes: Iterable[DesiredState], originals: Mapping[str, int | None], capacity_milli: int, now: float
) -> dict[str, Target]:
    """The winning limit by pod uid. `originals` holds every live pod with its limit before us (None = unlimited)."""
    best: dict[str, Target] = {}
    for wish in sorted(wishes, key=lambda wish: wish.writer):
        lapsed = wish.lapsed_seconds(now)
        for throttle in wish.throttles:
            if throttle.pod_uid not in originals:
                continue
            limit = eased(throttle.limit_milli, lapsed, capacity_milli)
            if not _binds(limit, originals[throttle.pod_uid], capacity_milli, lapsed):
                continue
            present = best.get(throttle.pod_uid)
            if present is None or limit < present.limit_milli:
                best[throttle.pod_uid] = Target(limit, wish.writer, throttle.decision_id)
    return best


def _binds(limit: int, original: int | None, capacity_milli: int, lapsed: float) -> bool:
    if original is not None and limit >= original:
        return False
    return lapsed < 0 or limit < capacity_milli


def policy_of(wishes: Iterable[DesiredState]) -> Policy | None:
    """The weight policy in force: the one that protects prod more wins; None if nobody ever declared one.

    A lapsed lease does not change weights: they cost nobody anything while the machine is idle.
    """
    found = {wish.policy for wish in wishes}
    return max(found, key=_PROTECTION.index, default=None)


class Do(Enum):
    """What to do with one knob. RELEASE and FORGET write nothing."""

    WRITE = "write"
    RESTORE = "restore"
    RELEASE = "release"
    FORGET = "forget"
    YIELD = "yield"


@dataclass(frozen=True, slots=True)
class Step:
    """`text` is what to write (WRITE, RESTORE) or what was found (YIELD); `previous` what was there before us.

    WRITE with `claim` set is the first write of a knob. FORGET: the file is gone. YIELD: a foreign writer has it.
    """

    do: Do
    knob: Knob
    text: str = ""
    previous: str = ""
    claim: bool = False


def plan(
    desired: Mapping[Knob, str | None],
    present: Mapping[Knob, str | None],
    journal: Journal,
    foreign: Mapping[Knob, str],
) -> Sequence[Step]:
    """Steps that lead from present to desired texts (None = as before us). Empty once they agree.

    `present` is None for a knob that is gone; `foreign` holds the knobs left to a foreign writer with the text from
    before us: when that text is back, the knob is ours to write again.
    """
    steps = (_step(knob, wanted, present.get(knob), journal, foreign) for knob, wanted in desired.items())
    return [step for step in steps if step is not None]


def _step(
    knob: Knob, wanted: str | None, present: str | None, journal: Journal, foreign: Mapping[Knob, str]
) -> Step | None:
    claim = journal.claim_of(knob)
    if present is None:
        return Step(Do.FORGET, knob) if claim is not None else None
    if claim is not None and not claim.ours(present):
        return Step(Do.YIELD, knob, present, claim.previous)
    if knob in foreign and present != foreign[knob]:
        return None
    if wanted is None or (claim is not None and wanted == claim.previous):
        if claim is None:
            return None
        done = present == claim.previous
        return Step(Do.RELEASE if done else Do.RESTORE, knob, claim.previous, claim.previous)
    if present == wanted:
        return None
    return Step(Do.WRITE, knob, wanted, claim.previous if claim else present, claim=claim is None)
