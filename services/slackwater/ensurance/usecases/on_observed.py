"""On intent.observed: the node has carried out a generation, or says for which pods it could not. Later samples show
the change: the planner may go on, and the effect can be measured."""

from __future__ import annotations

from datetime import datetime

from slackwater.ensurance.domain.node_state import GuardedNode, observed
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.events.envelope import Event
from slackwater.events.intent_observed import IntentObserved
from slackwater.intents.answers import ObservedAnswer


class OnObserved:
    """See the module's docstring."""

    def __init__(self, cache: GuardedNodeCache, intents: GuardIntents) -> None:
        self._cache = cache
        self._intents = intents

    async def __call__(self, event: Event[IntentObserved]) -> None:
        """Idempotent: a generation that was recorded before changes nothing. Raises Unavailable, Conflict."""
        await self._intents.observe(event, self._after)

    def _after(self, before: GuardedNode, answer: ObservedAnswer, now: datetime) -> GuardedNode:
        limits = self._cache.rules.limits_of(before.pool)
        return observed(
            before,
            answer.generation,
            answer.observed_at,
            answer.failures,
            now,
            limits,
            answer.memory_failures,
            unread=answer.unread,
            memory_unread=answer.memory_unread,
        )
