"""On eviction.requested: the granted evictions of a reclaimed claim join the intent of their node."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from slackwater.decisions.reasons import Mode
from slackwater.ensurance.domain.node_state import Evicting, GuardedNode, carried_out
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.events.envelope import Event
from slackwater.events.eviction_requested import EvictionRequested


class OnEvictionRequested:
    """A node whose pool may not evict now is left alone: the platform of the claim ends it, or it is overdue."""

    def __init__(self, cache: GuardedNodeCache, intents: GuardIntents) -> None:
        self._cache = cache
        self._intents = intents

    async def __call__(self, event: Event[EvictionRequested]) -> None:
        """Idempotent by the ids of the evictions. Raises Unavailable, Conflict."""
        await self._intents.change(event.data.node, partial(self._after, event.data), event)

    def _after(self, wanted: EvictionRequested, before: GuardedNode, now: datetime) -> GuardedNode:
        if now >= wanted.deadline or self._cache.options(before, now).mode is not Mode.EVICT:
            return before
        known = {eviction.id for eviction in before.evictions} | {eviction.pod_uid for eviction in before.evictions}
        begun = [
            Evicting(
                id=pod.id,
                pod_uid=pod.pod_uid,
                pod_name=pod.pod_name,
                grace_seconds=wanted.grace_seconds,
                deadline=wanted.deadline,
                reason=wanted.reason,
                decision_id=wanted.decision_id,
            )
            for pod in wanted.pods
            if pod.id not in known and pod.pod_uid not in known
        ]
        return carried_out(before, before.state, {}, begun, (), now) if begun else before
