"""What an arbitration is handed and what it returns. Amounts by resource name, times in seconds since the epoch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from slackwater.fairshare.admission import LimitExcess
from slackwater.fairshare.claims import QuotaClaim, ReclaimReason
from slackwater.fairshare.queue_order import DEFAULT_AGING_S, QueuePolicy
from slackwater.fairshare.tree import Amounts, Quota
from slackwater.model.records import record


@record(frozen=True, slots=True)
class ArbitrationSettings:
    """Rules that hold for all quotas."""

    queue_policy: QueuePolicy = QueuePolicy.BEST_EFFORT_FIFO
    """Of quotas that name none."""
    aging_s: float | None = DEFAULT_AGING_S
    """How much earlier a point of priority counts; None: priority alone orders a queue."""
    starvation_s: float = 600.0
    """A claim that has waited longer is not passed in its queue any more, if its quota's runtime is enough for it."""
    drain_s: float = 86_400.0
    """A claim that has waited longer, and that its quota's runtime is not enough for, gets what becomes free in the
    tree, until it fits: one at a time, because what is kept for it stands idle."""
    borrow_backoff_s: float = 60.0
    """A workload that was reclaimed waits this long before it borrows again, twice as long each time
    (MOST_DOUBLINGS)."""
    reclaim_delay_s: float = 120.0
    """How long a quota may use more than its runtime before others take it back. A lender's min is not delayed."""
    preempts: bool = True
    """Whether a claim may end claims of a lower priority in its own quota."""


MOST_DOUBLINGS = 6


def may_borrow_s(claim: QuotaClaim, settings: ArbitrationSettings) -> float:
    """Returns from when a claim may borrow: from its submission, if no claim of its workload was reclaimed before."""
    if claim.reclaims <= 0:
        return claim.submitted_s
    return claim.submitted_s + settings.borrow_backoff_s * 2.0 ** min(claim.reclaims - 1, MOST_DOUBLINGS)


@record(frozen=True, slots=True)
class QuotaSnapshot:
    """Everything that an arbitration reads."""

    quotas: Sequence[Quota]
    """Declared; their own requests and uses are ignored, the claims count."""
    totals: Mapping[str, Amounts]
    """What the pool has, by tree id."""
    claims: Sequence[QuotaClaim]
    """Ended ones are ignored."""
    settings: ArbitrationSettings = field(default_factory=ArbitrationSettings)
    queue_policies: Mapping[str, QueuePolicy] = field(default_factory=dict)
    """By quota."""
    over_since_s: Mapping[str, float] = field(default_factory=dict)
    """Since when a quota uses more than its runtime: `over_since_s` of the plan before."""
    evictions_allowed: Mapping[str, int] = field(default_factory=dict)
    """By tree id, for this arbitration; a tree that is not named has no bound."""
    granted: Collection[str] | None = None
    """Claims whose pods may be evicted: of those that have started no others are reclaimed. None: no bound."""
    refused: Collection[str] | None = None
    """Claims whose pods may not be evicted for now; of others nothing is known yet. None: of all others, as before."""
    reserved: Mapping[str, Amounts] = field(default_factory=dict)
    """What is kept of the pool for pods to come, by tree id: it counts as used, in no quota."""


class AdmissionBasis(StrEnum):
    """What a claim is admitted on, which is how soon others may want it back."""

    WITHIN_MIN = "within_min"
    WITHIN_RUNTIME = "within_runtime"
    BORROWED = "borrowed"
    """Beyond the runtime, from what no entitled claim waits for."""
    RESERVED = "reserved"
    """From what was reclaimed or kept for it."""


@record(frozen=True, slots=True)
class ClaimAdmission:
    """A claim that starts now."""

    claim: str
    quota: str
    amounts: Amounts
    basis: AdmissionBasis
    requested: Amounts
    share: float
    """The quota's dominant used-to-fair-share before it: the lowest among those that waited."""

    @property
    def partial(self) -> bool:
        """Whether it holds less than it asked for."""
        return self.amounts != self.requested


class RefusalReason(StrEnum):
    """Why a claim can never be admitted as things are declared."""

    UNKNOWN_QUOTA = "unknown_quota"
    PARENT_QUOTA = "parent_quota"
    ABOVE_MAX = "above_max"
    """It requests more than the max of its quota, or than one above leaves beside what others do not lend."""
    ABOVE_MIN = "above_min"
    """It is not preemptible and requests more than the min."""


@record(frozen=True, slots=True)
class ClaimRefusal:
    """A claim that can never fit, with the figures it ran into."""

    claim: str
    quota: str
    reason: RefusalReason
    excesses: Sequence[LimitExcess]
    """Used is what others do not lend, 0 else: the request alone is too large."""


class WaitReason(StrEnum):
    """Why a queued claim is not admitted."""

    BEHIND = "behind"
    """A claim before it in a strict queue waits, or one that has waited for too long to be passed."""
    LIMIT = "limit"
    """A max, or the min of claims that are not preemptible: see the excesses."""
    CAPACITY = "capacity"
    """The pool has too little free, and nothing may be reclaimed for it."""
    KEPT = "kept"
    """What is free is kept for claims that go first."""
    RECLAIMING = "reclaiming"
    """Resources are being reclaimed for it."""
    DELAY = "delay"
    """It will be reclaimed for it once the borrowers have been above their runtime for long enough."""
    BUDGET = "budget"
    """It would be reclaimed for it, but no more evictions are allowed."""
    GRANT = "grant"
    """It would be reclaimed for it, and whether that is allowed has not been answered yet."""
    BACKOFF = "backoff"
    """It was reclaimed before, and does not borrow again yet."""
    BEYOND_POOL = "beyond_pool"
    """The whole pool is too small, by itself or beside what others do not lend; it does not block others meanwhile."""


@record(frozen=True, slots=True)
class QueuePlace:
    """Where a waiting claim stands in its quota's queue."""

    claim: str
    quota: str
    position: int
    """From 1."""
    length: int
    reason: WaitReason
    excesses: Sequence[LimitExcess]
    """Empty for those behind."""
    reserved: bool
    ahead: Amounts
    """What the claims before it request."""


@record(frozen=True, slots=True)
class ClaimReclaim:
    """A claim that has to end, and for which one."""

    victim: str
    victim_quota: str
    amounts: Amounts
    reason: ReclaimReason
    deadline_s: float
    """The end of its grace; at once for one that has not started."""
    for_quota: str
    for_claim: str
    used: Amounts
    """By the victim's quota, before."""
    runtime: Amounts
    """Of the victim's quota."""
    needed: Amounts
    """What the claim it is for still lacks, before; the pool's shortage where the pool shrank."""


@record(frozen=True, slots=True)
class ArbitrationPlan:
    """The decisions of one moment; `apply_plan` makes them states of claims."""

    admissions: Sequence[ClaimAdmission]
    """In the order in which they were decided."""
    refusals: Sequence[ClaimRefusal]
    places: Sequence[QueuePlace]
    """By quota and position."""
    reclaims: Sequence[ClaimReclaim]
    """Preemptions within a quota too: their reason is higher_priority."""
    reservations: Sequence[str]
    """Queued claims for which resources are kept from now on; all others lose theirs."""
    released_reservations: Sequence[str]
    """Queued claims that had a reservation and have none any more."""
    evictions: Sequence[str]
    """Claims whose grace is over and that still hold."""
    ungranted: Sequence[ClaimReclaim]
    """What would be reclaimed if all of it were granted; the claims of one order come one after another."""
    over_since_s: Mapping[str, float]
