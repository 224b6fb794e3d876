"""The decisions of a plan, claim by claim, each with the sum that led to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from slackwater.decisions.reasons import Reason
from slackwater.fairshare.admission import LimitExcess
from slackwater.fairshare.arbitration_plan import (
    ArbitrationPlan,
    ClaimAdmission,
    ClaimReclaim,
    ClaimRefusal,
    QueuePlace,
    WaitReason,
)
from slackwater.fairshare.tree import Amounts, amount_text, is_cpu
from slackwater.model.records import record

PLACES = "places"


@record(frozen=True, slots=True)
class SumTerm:
    """One summand, in the unit of the result."""

    name: str
    value: int
    note: str = ""


@record(frozen=True, slots=True)
class ClaimDecision:
    """What was decided about one claim. The terms add up to the result, in the resource that decided."""

    claim: str
    quota: str
    reason: Reason
    message: str
    terms: Sequence[SumTerm]
    unit: str
    others: Mapping[str, int] = field(default_factory=dict)
    """Further figures, by name."""

    @property
    def result(self) -> int:
        return sum(term.value for term in self.terms)


def decisions_of(
    plan: ArbitrationPlan, runtime: Mapping[str, Amounts], used: Mapping[str, Amounts], told: Collection[str]
) -> Iterator[ClaimDecision]:
    """Yields every decision. `runtime` and `used` are by quota, before the plan. Of claims that wait only those in
    `told` are decided about: they have just come, or their reason is new."""
    for admission in plan.admissions:
        yield _admitted(admission, runtime.get(admission.quota, {}), used.get(admission.quota, {}))
    for refusal in plan.refusals:
        yield _refused(refusal)
    for reclaim in plan.reclaims:
        yield _reclaimed(reclaim)
    for place in plan.places:
        if place.claim in told:
            yield _queued(place)


def unit_of(resource: str) -> str:
    """Returns the unit in which the ledger counts a resource."""
    if is_cpu(resource):
        return "milli-cores"
    return "bytes" if resource.endswith("memory") else "units"


def _admitted(admission: ClaimAdmission, runtime: Amounts, used: Amounts) -> ClaimDecision:
    resource = _tightest(admission.amounts, runtime, used)
    amount = admission.amounts.get(resource, 0)
    terms = (
        SumTerm("runtime", runtime.get(resource, 0), f"{resource} of {admission.quota}"),
        SumTerm("used", -used.get(resource, 0), "by its claims before this one"),
        SumTerm("admitted", -amount, "less than was requested" if admission.partial else "as requested"),
    )
    basis = admission.basis.value.replace("_", " ")
    given = ", ".join(
        f"{name} {amount_text(name, admission.amounts.get(name, 0))}"
        + (f" of {amount_text(name, asked)} asked for" if admission.amounts.get(name, 0) != asked else "")
        for name, asked in sorted(admission.requested.items())
    )
    message = f"admitted {basis} with {given}"
    reason = Reason(f"claim_admitted_{admission.basis.value}")
    figures = dict(sorted(admission.amounts.items()))
    return ClaimDecision(admission.claim, admission.quota, reason, message, terms, unit_of(resource), figures)


def _tightest(amounts: Amounts, runtime: Amounts, used: Amounts) -> str:
    """The resource of which the claim leaves the smallest part of the runtime."""

    def left(resource: str) -> float:
        whole = runtime.get(resource, 0)
        return (whole - used.get(resource, 0) - amounts[resource]) / whole if whole > 0 else float("-inf")

    named = [resource for resource in sorted(amounts) if resource in runtime]
    return min(named or sorted(amounts) or ["cpu"], key=left)


def _refused(refusal: ClaimRefusal) -> ClaimDecision:
    reason = Reason(f"claim_refused_{refusal.reason.value}")
    message = f"refused: {refusal.reason.value.replace('_', ' ')}{_excess_text(refusal.excesses)}"
    terms, unit = _sum_of(refusal.excesses)
    return ClaimDecision(refusal.claim, refusal.quota, reason, message, terms, unit)


def _queued(place: QueuePlace) -> ClaimDecision:
    reason = Reason(f"claim_queued_{place.reason.value}")
    message = f"{place.position} of {place.length} in the queue of {place.quota}: {wait_text(place)}"
    terms, unit = _sum_of(place.excesses, "not lent" if place.reason is WaitReason.BEYOND_POOL else "used")
    if not place.excesses:
        terms = (SumTerm("claims before it", place.position - 1), SumTerm("itself", 1))
        unit = PLACES
    return ClaimDecision(place.claim, place.quota, reason, message, terms, unit, {"position": place.position})


_WAITS = {
    WaitReason.BEHIND: "a claim before it waits, and the queue is strict",
    WaitReason.LIMIT: "a limit is reached",
    WaitReason.CAPACITY: "the pool has too little free",
    WaitReason.KEPT: "what is free is kept for claims that go first",
    WaitReason.RECLAIMING: "resources are being reclaimed for it",
    WaitReason.DELAY: "it is reclaimed for it once borrowers were above their runtime for long enough",
    WaitReason.BUDGET: "no more evictions are allowed now",
    WaitReason.GRANT: "the pool is asked whether the claims that would be reclaimed for it may end",
    WaitReason.BACKOFF: "it was reclaimed before, and does not borrow again yet",
    WaitReason.BEYOND_POOL: "the whole pool is too small for it",
}


def wait_text(place: QueuePlace) -> str:
    """Returns why a claim waits, with the first figures."""
    if place.reason is WaitReason.BEYOND_POOL:
        return f"{_WAITS[place.reason]}{_pool_text(place.excesses[:1])}"
    return f"{_WAITS[place.reason]}{_excess_text(place.excesses[:1])}"


def _pool_text(excesses: Sequence[LimitExcess]) -> str:
    """Where nothing that is used would have to end: what quotas keep by `allowLentResource: false` counts as used."""
    return "".join(
        f"; no node has {excess.resource}"
        if not excess.allowed
        else f"; {excess.resource}: {amount_text(excess.resource, excess.allowed)} in all"
        + (f", of which other quotas do not lend {amount_text(excess.resource, excess.used)}" if excess.used else "")
        + f"; it requests {amount_text(excess.resource, excess.requested)}"
        for excess in excesses
    )


def _excess_text(excesses: Sequence[LimitExcess]) -> str:
    return "".join(
        f"; {excess.resource}: {amount_text(excess.resource, excess.used)} used and"
        f" {amount_text(excess.resource, excess.requested)} more are above the {excess.limit.value}"
        f" of {excess.quota}, {amount_text(excess.resource, excess.allowed)}"
        for excess in excesses
    )


def _sum_of(excesses: Sequence[LimitExcess], used: str = "used") -> tuple[tuple[SumTerm, ...], str]:
    if not excesses:
        return (), "units"
    excess = excesses[0]
    terms = (
        SumTerm(excess.limit.value, excess.allowed, f"{excess.resource} of {excess.quota}"),
        SumTerm(used, -excess.used),
        SumTerm("requested", -excess.requested),
    )
    return terms, unit_of(excess.resource)


def _reclaimed(reclaim: ClaimReclaim) -> ClaimDecision:
    resource = next((name for name in sorted(reclaim.needed) if reclaim.amounts.get(name)), "cpu")
    if resource not in reclaim.amounts:
        resource = min(reclaim.amounts, default="cpu")
    terms = (
        SumTerm("needed", reclaim.needed.get(resource, 0), f"{resource} by {reclaim.for_claim or 'the pool'}"),
        SumTerm("reclaimed", -reclaim.amounts.get(resource, 0), f"from {reclaim.victim_quota}"),
    )
    wanted = f"claim {reclaim.for_claim} of {reclaim.for_quota}" if reclaim.for_claim else "the pool, which shrank"
    message = f"has to end for {wanted}: {reclaim.reason.value.replace('_', ' ')}"
    others = {
        f"{name} {key}": amount
        for name, amounts in (("used", reclaim.used), ("runtime", reclaim.runtime))
        for key, amount in sorted(amounts.items())
        if key in reclaim.amounts
    }
    reason = Reason(f"claim_reclaimed_{reclaim.reason.value}")
    return ClaimDecision(reclaim.victim, reclaim.victim_quota, reason, message, terms, unit_of(resource), others)
