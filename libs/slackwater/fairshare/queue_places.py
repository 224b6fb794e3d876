"""Where each waiting claim stands in its queue, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from slackwater.fairshare.admission import LimitExcess, QuotaLimit
from slackwater.fairshare.arbitration_plan import QueuePlace, WaitReason
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.tree import added
from slackwater.fairshare.tree_state import TreeState
from slackwater.fairshare.waiting_queue import Shape, shape_of


def queue_places(
    state: TreeState,
    waiting: Mapping[str, Sequence[QuotaClaim]],
    *,
    blocks: Callable[[QuotaClaim], bool],
    reasons: Mapping[str, WaitReason],
    reserved: Collection[str],
    beyond_pool: Mapping[str, Sequence[LimitExcess]],
) -> list[QueuePlace]:
    """Returns the places by quota and position, given what has been decided of some of the claims.

    `waiting` is in order; `beyond_pool` has what the pool is too small for.
    """
    found: list[QueuePlace] = []
    for quota, queue in sorted(waiting.items()):
        obstacles: dict[Shape, tuple[Sequence[LimitExcess], WaitReason]] = {}
        ahead: dict[str, int] = {}
        blocked = False
        for position, claim in enumerate(queue, 1):
            excesses: Sequence[LimitExcess] = ()
            reason = reasons.get(claim.id)
            if claim.id in beyond_pool:
                reason, excesses = WaitReason.BEYOND_POOL, beyond_pool[claim.id]
            elif blocked and reason is None:
                reason = WaitReason.BEHIND
            else:
                if (shape := shape_of(claim)) not in obstacles:
                    obstacles[shape] = _obstacles(state, claim)
                excesses, computed = obstacles[shape]
                reason = reason or computed
            blocked = blocked or (reason is not WaitReason.BEYOND_POOL and blocks(claim))
            found.append(
                QueuePlace(claim.id, quota, position, len(queue), reason, excesses, claim.id in reserved, dict(ahead))
            )
            ahead = added(ahead, claim.request)
    return found


def _obstacles(state: TreeState, claim: QuotaClaim) -> tuple[Sequence[LimitExcess], WaitReason]:
    """Returns the limits that the claim would exceed now and their kind; none: what is free is kept for others."""
    found = state.now.excesses(claim.quota, claim.request)
    if claim.non_preemptible:
        found += state.min_excesses(claim, claim.request)
    if any(excess.limit is not QuotaLimit.TOTAL for excess in found):
        return found, WaitReason.LIMIT
    if found:
        return found, WaitReason.CAPACITY
    return state.after.excesses(claim.quota, claim.request), WaitReason.KEPT
