"""On reclaim.requested: count the evictions against the Autonomies of the pools, as far as these allow, and answer.

What is granted counts from now on until an hour after the grant has lapsed, used or not: so no reclaim takes a pool
beyond what its Autonomy allows in any hour, evictions at waterlines included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

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


REMEMBERED: Final = 1000
"""Grants that a process remembers, the newest."""


class AnswerReclaims:
    """See the module's docstring. A request and its repeats are counted once: those of one batch, and those that follow
    while the grant may be used. Another process counts a repeat again: fewer evictions are then left."""

    def __init__(self, cache: GuardedNodeCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._grants: dict[str, ReclaimAnswered] = {}
        """By id of the request, the oldest first."""

    async def __call__(self, events: Sequence[Event[ReclaimRequested]]) -> None:
        """One transaction for all that wait, so that the pause of one answer does not add up for many askers. Raises
        Unavailable, Conflict if another replica counted meanwhile."""
        async with self._cache.lock():
            now = self._clock.now()
            changed: dict[str, PoolStanding] = {}
            answers: dict[str, ReclaimAnswered] = {}
            asked = {event.data.id: event for event in reversed(events)}
            for event in events:
                request = event.data
                if request.id not in answers:
                    answers[request.id] = self._kept(request, now) or self._answer(request, changed, now)
            async with self._cache.transaction() as unit:
                saved = [await unit.save_autonomy(standing) for standing in changed.values()]
                for answer in answers.values():
                    event = asked[answer.id]
                    await unit.publish(event_of(answer, source=ENSURANCE.name, time=now, causedby=event))
            for standing in saved:
                self._cache.stands(standing)
            self._remember(answers, now)

    def _kept(self, request: ReclaimRequested, now: datetime) -> ReclaimAnswered | None:
        """The grant that a request has already; None where there is none that may be used still."""
        kept = self._grants.get(request.id)
        return kept if kept is not None and kept.tree == request.tree and now < kept.valid_until else None

    def _remember(self, answers: Mapping[str, ReclaimAnswered], now: datetime) -> None:
        granted = {name: answer for name, answer in answers.items() if answer.granted}
        kept = {name: answer for name, answer in (self._grants | granted).items() if now < answer.valid_until}
        self._grants = dict(list(kept.items())[-REMEMBERED:])

    def _answer(self, request: ReclaimRequested, changed: dict[str, PoolStanding], now: datetime) -> ReclaimAnswered:
        """The answer to a new request; `changed` has the standings that earlier ones change, and then its own."""
        until = now + timedelta(seconds=request.valid_seconds)
        standings, granted, because, again_at = self._granted(request, changed, now, until)
        changed.update(standings)
        return ReclaimAnswered(
            id=request.id,
            tree=request.tree,
            granted=tuple(granted),
            because=because,
            again_at=again_at,
            valid_until=until,
            answered_at=now,
        )

    def _granted(
        self, request: ReclaimRequested, before: Mapping[str, PoolStanding], now: datetime, until: datetime
    ) -> tuple[Mapping[str, PoolStanding], Sequence[str], str, datetime | None]:
        """The standings that change, the claims whose orders fit, and why and until when the first other waits."""
        orders: dict[str, list[WantedReclaim]] = {}
        for each in request.wanted:
            orders.setdefault(each.order, []).append(each)
        changed = dict(before)
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
                policy = self._cache.rules.autonomy_of(pool)
                changed[pool] = self._standing(pool, changed).reserved(policy, now, until, number)
            granted += [claim.claim for claim in claims]
        return changed, granted, because, again_at

    def _standing(self, pool: str, changed: Mapping[str, PoolStanding]) -> PoolStanding:
        return changed.get(pool) or self._cache.standing(pool)

    def _refusal(
        self, pool: str, number: int, changed: Mapping[str, PoolStanding], now: datetime, *, by_intent: bool
    ) -> tuple[str, datetime] | None:
        """Why a pool does not allow so many evictions now, and when it may; None if it does.

        The mode holds where the pool has an Autonomy, the cluster evicts, or intents evict in any case. Elsewhere only
        the number does: nothing is evicted by an intent there, the platform of the claim ends it."""
        policy, standing = self._cache.rules.autonomy_of(pool), self._standing(pool, changed)
        mode = self._cache.mode(standing, policy, now)
        ruled = by_intent or pool in self._cache.rules.autonomy or policy.mode is Mode.EVICT
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
