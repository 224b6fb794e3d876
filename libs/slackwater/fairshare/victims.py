"""Which claims have to end so that another fits: no more than needed, and none if that is not enough.

Candidates are let go from the first on until the claim fits, then given back from the last on as far as it still fits.
What happens is simulated on the tree's state; only a choice that succeeds stays in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from slackwater.fairshare.admission import LimitExcess
from slackwater.fairshare.arbitration_plan import ClaimReclaim
from slackwater.fairshare.claims import QuotaClaim, ReclaimReason
from slackwater.fairshare.tree import ROOT, Amounts
from slackwater.fairshare.tree_state import TreeState


def in_reclaim_order(state: TreeState, quotas: Iterable[str]) -> list[QuotaClaim]:
    """Returns what may be reclaimed from these quotas: lowest priority, most over its fair share, newest first.

    Newest is latest admitted, then latest submitted.
    """
    shares = {quota: state.share(quota) for quota in quotas}
    found = [
        claim
        for quota in shares
        for claim in state.index.holding.get(quota, {}).values()
        if not claim.non_preemptible and claim.id not in state.index.reclaiming
    ]
    return sorted(found, key=lambda claim: (claim.priority, -shares[claim.quota], *newest_first(claim)))


def newest_first(claim: QuotaClaim) -> tuple[float, float, str]:
    """Returns the sort key among equals."""
    return (-(claim.admitted_s or 0.0), -claim.submitted_s, claim.id)


def reclaim_of(
    state: TreeState,
    victim: QuotaClaim,
    reason: ReclaimReason,
    claim: QuotaClaim | None,
    needed: Amounts,
    now_s: float,
) -> ClaimReclaim:
    """Returns the order for one victim to end, with its grace if it has started; `claim` is what it ends for."""
    return ClaimReclaim(
        victim=victim.id,
        victim_quota=victim.quota,
        amounts=victim.holds,
        reason=reason,
        deadline_s=now_s if victim.started_s is None else now_s + victim.grace_s,
        for_quota="" if claim is None else claim.quota,
        for_claim="" if claim is None else claim.id,
        used={resource: held for resource, held in state.now.of(victim.quota).items() if held},
        runtime=state.runtime[victim.quota],
        needed=needed,
    )


def choose(
    state: TreeState,
    candidates: Iterable[QuotaClaim],
    missing: Callable[[], Sequence[LimitExcess]],
    *,
    bounded_by_runtime: bool,
    all_or_none: bool = True,
) -> list[QuotaClaim] | None:
    """Returns the victims after which nothing is missing, and lets them go from `state.after`.

    None, with the state as it was, where the candidates are not enough; with `all_or_none` False, those that help.
    `bounded_by_runtime`: a quota has to give only while it uses more than its runtime in a resource that is missing.
    """
    chosen: list[QuotaClaim] = []
    short = missing()
    for claim in candidates if short else ():
        if _helps(state, claim, short, bounded_by_runtime=bounded_by_runtime):
            chosen.append(claim)
            state.after.add(claim.quota, claim.holds, -1)
            short = missing()
            if not short:
                break
    if short and not all_or_none:
        return chosen
    if short:
        undo(state, chosen)
        return None
    return _spared(state, chosen, missing)


def undo(state: TreeState, victims: Iterable[QuotaClaim]) -> None:
    """Count the victims as staying."""
    for claim in victims:
        state.after.add(claim.quota, claim.holds)


def _spared(
    state: TreeState, chosen: list[QuotaClaim], missing: Callable[[], Sequence[LimitExcess]]
) -> list[QuotaClaim]:
    needed: list[QuotaClaim] = []
    for claim in reversed(chosen):
        state.after.add(claim.quota, claim.holds)
        if missing():
            state.after.add(claim.quota, claim.holds, -1)
            needed.append(claim)
    return needed[::-1]


def _helps(state: TreeState, claim: QuotaClaim, short: Sequence[LimitExcess], *, bounded_by_runtime: bool) -> bool:
    path = state.layout.paths[claim.quota]
    resources = {
        excess.resource
        for excess in short
        if claim.holds.get(excess.resource, 0) > 0 and (excess.quota == ROOT or excess.quota in path)
    }
    if not bounded_by_runtime:
        return bool(resources)
    return any(resource in resources for resource in state.above_runtime(claim.quota, state.after.of(claim.quota)))
