"""What a borrowing quota gives back when a lender wants its own.

Source: shared/facts/koordinator-quota-scheduling.md 1.8 (overuse revoke), issue 26: never a claim that cannot be taken
back, never more than needed in any dimension. The peer forgets the dimensions that the last pod did not ask for; here
all are kept (docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.fairshare.tree import Amounts, added
from slackwater.model.records import record


@record(frozen=True, slots=True)
class AdmittedClaim:
    """An admitted claim, as the choice of victims sees it."""

    id: str
    request: Amounts
    priority: int = 0
    started: float = 0.0
    """Seconds; the newest goes first among equals."""
    non_preemptible: bool = False


def over_used(used: Amounts, runtime: Amounts) -> dict[str, int]:
    """Returns by how much the use is above the runtime, in the resources where it is."""
    return {
        resource: amount - runtime[resource]
        for resource, amount in sorted(used.items())
        if resource in runtime and amount > runtime[resource]
    }


def to_reclaim(claims: Sequence[AdmittedClaim], runtime: Amounts) -> list[AdmittedClaim]:
    """Returns the claims to end, so that what remains is within the runtime.

    Claims are let go from the least important on until the rest fits, then given back from the most important on as far
    as they still fit; the result is in this order. Where even all of them are not enough, all that may be taken are
    returned, the least important first.
    """
    order = sorted(claims, key=lambda claim: (claim.priority, -claim.started, claim.id))
    used = added(*(claim.request for claim in order))
    taken: list[AdmittedClaim] = []
    for claim in order:
        if not over_used(used, runtime):
            break
        if not claim.non_preemptible:
            taken.append(claim)
            used = _without(used, claim)
    if over_used(used, runtime):
        return taken
    kept: set[str] = set()
    for claim in reversed(taken):
        with_it = added(used, claim.request)
        if not over_used(with_it, runtime):
            kept.add(claim.id)
            used = with_it
    return [claim for claim in reversed(taken) if claim.id not in kept]


def _without(used: Amounts, claim: AdmittedClaim) -> dict[str, int]:
    return added(used, {resource: -amount for resource, amount in claim.request.items()})
