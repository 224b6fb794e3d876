"""The life of a claim: a workload's request for resources of a quota, from its submission to its end.

queued → admitted → started → released, with reclaiming → reclaimed where its resources are needed elsewhere. A queued
claim may also be refused or withdrawn. Source: issue 26, section 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum

from slackwater.fairshare.tree import Amounts
from slackwater.model.records import record
from slackwater.model.tiers import Tier


class ClaimState(StrEnum):
    """Where a claim is in its life."""

    QUEUED = "queued"
    ADMITTED = "admitted"
    """Its resources count as used; the workload has not been seen running."""
    STARTED = "started"
    RECLAIMING = "reclaiming"
    """Asked to end by a deadline; still uses its resources."""
    RELEASED = "released"
    RECLAIMED = "reclaimed"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"


HOLDING = frozenset({ClaimState.ADMITTED, ClaimState.STARTED, ClaimState.RECLAIMING})
"""A claim in one of these uses resources of its quota."""
ENDED = frozenset({ClaimState.RELEASED, ClaimState.RECLAIMED, ClaimState.REFUSED, ClaimState.WITHDRAWN})
"""Final."""
TRANSITIONS: Mapping[ClaimState, frozenset[ClaimState]] = {
    ClaimState.QUEUED: frozenset({ClaimState.ADMITTED, ClaimState.REFUSED, ClaimState.WITHDRAWN}),
    ClaimState.ADMITTED: frozenset({ClaimState.STARTED, ClaimState.RECLAIMING, ClaimState.RELEASED}),
    ClaimState.STARTED: frozenset({ClaimState.RECLAIMING, ClaimState.RELEASED}),
    ClaimState.RECLAIMING: frozenset({ClaimState.RECLAIMED, ClaimState.RELEASED}),
    **{state: frozenset() for state in ENDED},
}


class ReclaimReason(StrEnum):
    """Why a claim is asked to end."""

    LENDER_MIN = "lender_min"
    """A quota requests what it is entitled to, and others use it."""
    ABOVE_RUNTIME = "above_runtime"
    """Its quota uses more than its runtime, for longer than the delay, and another is short of its own."""
    HIGHER_PRIORITY = "higher_priority"
    """Of the same quota: a claim of a higher priority has no room."""
    POOL_SHRUNK = "pool_shrunk"
    """The tree uses more than the pool has, for longer than the delay."""


@record(frozen=True, slots=True)
class ReclaimOrder:
    """Why and until when a claim has to end."""

    reason: ReclaimReason
    since_s: float
    deadline_s: float
    for_quota: str
    """Empty where the pool shrank."""
    for_claim: str
    """Empty where the pool shrank."""


class RunFinding(StrEnum):
    """How a claim and what agents report of its pods differ, where they do."""

    NEVER_STARTED = "never_started"
    """Admitted for longer than allowed, and nothing runs: holds resources that others wait for."""
    NOT_ADMITTED = "not_admitted"
    """Runs while it is queued."""
    BEYOND_CLAIM = "beyond_claim"
    """Runs with more than it was admitted with."""
    AFTER_END = "after_end"
    """Runs though it has ended."""
    RECLAIM_WITHOUT_EFFECT = "reclaim_without_effect"
    """Its grace is over, and it holds on."""


@record(frozen=True, slots=True)
class ClaimRun:
    """What agents report of a claim's pods."""

    pods: int
    """That run now; 0: they ran, and run no more."""
    first_seen_s: float | None = None
    """None: none of them was ever reported."""
    finding: RunFinding | None = None
    since_s: float | None = None
    """Of the finding."""


@record(frozen=True, slots=True)
class QuotaClaim:
    """One claim. Amounts are in the units of the ledger, times in seconds since the epoch."""

    id: str
    quota: str
    tier: Tier
    request: Amounts
    submitted_s: float
    priority: int = 0
    non_preemptible: bool = False
    """Never reclaimed, and admitted within the min only."""
    partial_minimum: Amounts | None = None
    """Where set, the claim may be admitted with less than its request, but no less than this."""
    workload: str = ""
    """Key by which agents report what runs."""
    grace_s: float = 30.0
    reclaims: int = 0
    """How often claims of the same workload were reclaimed before: the more, the later it may borrow again."""
    state: ClaimState = ClaimState.QUEUED
    admitted: Amounts = field(default_factory=dict)
    """What it was admitted with; kept after its end."""
    admitted_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    reserved: bool = False
    """Of a queued claim: resources are being reclaimed for it, and are kept for it."""
    reclaim: ReclaimOrder | None = None
    run: ClaimRun | None = None
    """None: no agent has reported a pod of it, and nothing differs."""

    @property
    def holds(self) -> Amounts:
        """What it uses of its quota now."""
        return self.admitted if self.state in HOLDING else {}

    @property
    def wants(self) -> Amounts:
        """What it counts in its quota's request: all of it while queued, what it holds afterwards."""
        return self.request if self.state is ClaimState.QUEUED else self.holds


class ClaimTransitionError(ValueError):
    """A claim cannot go to this state from the one it is in."""

    def __init__(self, claim: QuotaClaim, state: ClaimState) -> None:
        allowed = ", ".join(sorted(TRANSITIONS[claim.state])) or "none: it has ended"
        super().__init__(f"claim {claim.id} is {claim.state}, not to become {state}; allowed: {allowed}")
        self.claim = claim.id
        self.state = claim.state


def admit(claim: QuotaClaim, amounts: Amounts, now_s: float) -> QuotaClaim:
    """Returns the claim with `amounts` in use. Raises ClaimTransitionError."""
    admitted = _moved(claim, ClaimState.ADMITTED)
    return replace(admitted, admitted=dict(amounts), admitted_s=now_s, reserved=False)


def start(claim: QuotaClaim, now_s: float) -> QuotaClaim:
    """Returns the claim as seen running; one that is seen again is unchanged. Raises ClaimTransitionError."""
    if claim.state is ClaimState.STARTED or (claim.state is ClaimState.RECLAIMING and claim.started_s is not None):
        return claim
    if claim.state is ClaimState.RECLAIMING:
        return replace(claim, started_s=now_s)
    return replace(_moved(claim, ClaimState.STARTED), started_s=now_s)


def order_reclaim(claim: QuotaClaim, order: ReclaimOrder) -> QuotaClaim:
    """Returns the claim with the order to end; the first order stays. Raises ClaimTransitionError."""
    if claim.state is ClaimState.RECLAIMING:
        return claim
    return replace(_moved(claim, ClaimState.RECLAIMING), reclaim=order)


def end(claim: QuotaClaim, state: ClaimState, now_s: float) -> QuotaClaim:
    """Returns the claim in a final state; one that has ended stays as it is, whatever it is asked to become.

    Raises ClaimTransitionError.
    """
    if claim.state in ENDED:
        return claim
    if state not in ENDED:
        raise ClaimTransitionError(claim, state)
    return replace(_moved(claim, state), ended_s=now_s, reserved=False)


def _moved(claim: QuotaClaim, state: ClaimState) -> QuotaClaim:
    if state not in TRANSITIONS[claim.state]:
        raise ClaimTransitionError(claim, state)
    return replace(claim, state=state)
