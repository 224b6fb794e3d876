"""On reclaim.requested: count the evictions against the Autonomies of the pools, as far as these allow, and answer.

What is granted counts from now on until an hour after the grant has lapsed, used or not: so no reclaim takes a pool
beyond what its Autonomy allows in any hour, evictions at waterlines included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from slackwater.decisions.reasons import Mode
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache
from slackwater.events.envelope import Event, event_of
from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.events.reclaim_requested import ReclaimRequested, WantedReclaim
from slackwater.intents.controls import ENSURANCE
from slackwater.model.time import Clock
from slackwater.waterline.policies import autonomy

FAR = timedelta(hours=1)
"""When a pool that may not evict at all is asked again."""


class AnswerReclaims:
    """See the module's docstring."""

    def __init__(self, book: GuardedNodeCache, clock: Clock) -> None:
        self._book = book
        self._clock = clock

    async def __call__(self, event: Event[ReclaimRequested]) -> None:
        """A request that is delivered twice is counted twice: fewer evictions are then left. Raises Unavailable,
        Conflict if another replica counted meanwhile."""
        request = event.data
        async with self._book.lock():
            now = self._clock.now()
            until = now + timedelta(seconds=request.valid_seconds)
            standings, granted, because, again_at = self._granted(request, now, until)
            answer = ReclaimAnswered(
                id=request.id,
                tree=request.tree,
                granted=tuple(granted),
                because=because,
                again_at=again_at,
                valid_until=until,
                answered_at=now,
            )
            async with self._book.transaction() as unit:
                saved = [await unit.save_autonomy(standing) for standing in standings]
                await unit.publish(event_of(answer, source=ENSURANCE.name, time=now, causedby=event))
            for standing in saved:
                self._book.stands(standing)

    def _granted(
        self, request: ReclaimRequested, now: datetime, until: datetime
    ) -> tuple[Sequence[PoolStanding], Sequence[str], str, datetime | None]:
        """The standings that change, the claims whose orders fit, and why and until when the first other waits."""
        orders: dict[str, list[WantedReclaim]] = {}
        for each in request.wanted:
            orders.setdefault(each.order, []).append(each)
        changed: dict[str, PoolStanding] = {}
        granted: list[str] = []
        because, again_at = "", None
        for claims in orders.values():
            needed = _sum(claims)
            refusals = [
                self._refusal(pool, number, changed, now, by_intent=request.by_intent)
                for pool, number in sorted(needed.items())
            ]
            refused = next((refusal for refusal in refusals if refusal is not None), None)
            if refused is not None:
                because, again_at = (because, again_at) if because else refused
                continue
            for pool, number in needed.items():
                policy = self._book.rules.autonomy_of(pool)
                changed[pool] = self._standing(pool, changed).reserved(policy, now, until, number)
            granted += [claim.claim for claim in claims]
        return list(changed.values()), granted, because, again_at

    def _standing(self, pool: str, changed: Mapping[str, PoolStanding]) -> PoolStanding:
        return changed.get(pool) or self._book.standing(pool)

    def _refusal(
        self, pool: str, number: int, changed: Mapping[str, PoolStanding], now: datetime, *, by_intent: bool
    ) -> tuple[str, datetime] | None:
        """Why a pool does not allow so many evictions now, and when it may; None if it does.

        The mode holds where the pool has an Autonomy, the cluster evicts, or intents evict in any case. Elsewhere only
        the number does: nothing is evicted by an intent there, the platform of the claim ends it."""
        policy, standing = self._book.rules.autonomy_of(pool), self._standing(pool, changed)
        mode = self._book.mode(standing, policy, now)
        ruled = by_intent or pool in self._book.rules.autonomy or policy.mode is Mode.EVICT
        if mode is not Mode.EVICT and ruled:
            stepped = standing.state.stepped_back_at
            again = now + FAR if stepped is None else stepped + timedelta(seconds=policy.hold_seconds)
            why = "has stepped back from evicting" if policy.mode is Mode.EVICT else f"is in mode {mode.value}"
            return f"pool {pool} {why}", again
        counted = autonomy.review_step_back(standing.state, policy, now).evictions_at
        if len(counted) + number <= policy.evictions_per_hour:
            return None
        excess = len(counted) + number - policy.evictions_per_hour
        ordered = sorted(counted)
        again = ordered[excess - 1] + autonomy.HOUR if excess <= len(ordered) else now + FAR
        used = f"{len(counted)} of {policy.evictions_per_hour} evictions an hour are used"
        return f"pool {pool}: {used}, {number} more wanted", again


def _sum(claims: Sequence[WantedReclaim]) -> dict[str, int]:
    needed: dict[str, int] = {}
    for claim in claims:
        for pool, number in claim.evictions.items():
            needed[pool] = needed.get(pool, 0) + number
    return needed
