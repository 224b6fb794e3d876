"""On eviction.completed: a pod that has ended leaves the plan at once, before a report shows it. A pod whose eviction
was refused is left alone for a while, and the next candidate is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from slackwater.ensurance.domain.node_state import GuardedNode, ended
from slackwater.ensurance.metrics import EnsuranceMetrics
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.intents.controls import ENSURANCE
from slackwater.waterline.node_guard import evicted_alone, eviction_failed

STANDS_IN = "agent"
"""The writer of evictions that a disconnected agent decides about."""
ENDED = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED})
HELD = frozenset({EvictionOutcome.EXPIRED, EvictionOutcome.REFUSED})
GONE = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED, EvictionOutcome.ALREADY_GONE})


def _in_vain(node: GuardedNode, answer: EvictionCompleted) -> tuple[datetime, ...]:
    """When the answered eviction began, if it is ensurance's own and has ended no pod."""
    if answer.outcome in GONE or all(eviction.id != answer.id for eviction in node.evictions):
        return ()
    underway = node.state.cycle.executor.underway
    return tuple(one.begun_at for one in underway if one.uid == answer.pod_uid and one.begun_at is not None)


class OnEvicted:
    """The limit of a pod that is gone leaves the intent, whichever writer evicted it. Idempotent."""

    def __init__(self, cache: GuardedNodeCache, meter: EnsuranceMetrics, intents: GuardIntents) -> None:
        self._meter = meter
        self._cache = cache
        self._intents = intents

    async def __call__(self, event: Event[EvictionCompleted]) -> None:
        """Raises Unavailable, Conflict."""
        self._meter.evicted(event.data.outcome)
        before = self._cache.node(event.data.node)
        in_vain = () if before is None else _in_vain(before, event.data)
        after = await self._intents.change(event.data.node, partial(self._after, event.data), event)
        if after is not None and in_vain:
            await self._count_out(after, in_vain)

    async def _count_out(self, node: GuardedNode, in_vain: Sequence[datetime]) -> None:
        """Evictions that were refused do not count towards the pool's limit. Raises Unavailable, Conflict; the answer
        that is then delivered again finds no eviction, so that they count: the pool evicts less, not more."""
        async with self._cache.lock(node.node), self._cache.of_pool(node.pool):
            before = self._cache.standing(node.pool)
            if (after := before.without(in_vain)) is before:
                return
            async with self._cache.transaction() as unit:
                after = await unit.save_autonomy(after)
            self._cache.stands(after)

    def _after(self, seen: EvictionCompleted, before: GuardedNode, now: datetime) -> GuardedNode:
        gone = seen.outcome in GONE
        expired = seen.outcome in HELD
        after = ended(before, seen.id, seen.pod_uid, seen.completed_at, gone=gone, expired=expired)
        if seen.writer == STANDS_IN and seen.outcome in ENDED:
            after = replace(after, state=evicted_alone(after.state, seen.completed_at))
        own = any(eviction.id == seen.id for eviction in before.evictions)
        if gone or not own or seen.writer != ENSURANCE.name:
            return after
        because = f"its eviction was {seen.outcome}" + (f": {seen.detail}" if seen.detail else "")
        limits = self._cache.rules.limits_of(before.pool)
        return replace(after, state=eviction_failed(after.state, seen.pod_uid, because, now, limits))
