"""On eviction.completed: a pod that has ended leaves the plan at once, before a report shows it. A pod whose eviction
was refused is left alone for a while, and the next candidate is tried."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial

from slackwater.ensurance.domain.node_state import GuardedNode, ended
from slackwater.ensurance.ports import EnsuranceMeter
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.intents.controls import ENSURANCE
from slackwater.waterline.node_guard import evicted_alone, eviction_failed

STANDS_IN = "agent"
"""The writer of evictions that a disconnected agent decides about."""
ENDED = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED})
GONE = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED, EvictionOutcome.ALREADY_GONE})


class OnEvicted:
    """The limit of a pod that is gone leaves the intent, whichever writer evicted it. Idempotent."""

    def __init__(self, book: GuardedNodeCache, meter: EnsuranceMeter, intents: GuardIntents) -> None:
        self._meter = meter
        self._book = book
        self._intents = intents

    async def __call__(self, event: Event[EvictionCompleted]) -> None:
        """Raises Unavailable, Conflict."""
        self._meter.evicted(event.data.outcome)
        await self._intents.change(event.data.node, partial(self._after, event.data), event)

    def _after(self, seen: EvictionCompleted, before: GuardedNode, now: datetime) -> GuardedNode:
        gone = seen.outcome in GONE
        expired = seen.outcome is EvictionOutcome.EXPIRED
        after = ended(before, seen.id, seen.pod_uid, seen.completed_at, gone=gone, expired=expired)
        if seen.writer == STANDS_IN and seen.outcome in ENDED:
            after = replace(after, state=evicted_alone(after.state, seen.completed_at))
        own = any(one.id == seen.id for one in before.evictions)
        if gone or not own or seen.writer != ENSURANCE.name:
            return after
        because = f"its eviction was {seen.outcome}" + (f": {seen.detail}" if seen.detail else "")
        limits = self._book.rules.limits_of(before.pool)
        return replace(after, state=eviction_failed(after.state, seen.pod_uid, because, now, limits))
