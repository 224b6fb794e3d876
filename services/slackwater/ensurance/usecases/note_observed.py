"""On intent.observed: the node has carried out a generation, or says for which pods it could not."""

from __future__ import annotations

from slackwater.ensurance.domain.guarded import observed
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declaring import SOURCE, declared
from slackwater.events.envelope import Event
from slackwater.events.intent_observed import IntentObserved
from slackwater.model.time import Clock


class NoteObserved:
    """Later samples show the change: the planner may go on, and the effect can be measured."""

    def __init__(self, book: Book, clock: Clock, lease_seconds: float) -> None:
        self._book = book
        self._clock = clock
        self._lease_seconds = lease_seconds

    async def __call__(self, event: Event[IntentObserved]) -> None:
        """Idempotent: a generation that was noted before changes nothing."""
        seen = event.data
        if seen.writer != SOURCE:
            return
        async with self._book.turn(seen.node):
            before = self._book.node(seen.node)
            if before is None:
                return
            failures = tuple((limit.pod_uid, limit.cpu_limit_milli) for limit in seen.limits if limit.error is not None)
            now, limits = self._clock.now(), self._book.rules.limits_of(before.pool)
            after = observed(before, seen.generation, seen.observed_at, failures, now, limits)
            if after == before:
                return
            async with self._book.writing() as unit:
                if after.generation != before.generation:
                    await unit.publish(declared(after, self._book.terms(after, now), self._lease_seconds, now, event))
                after = await unit.save(after, last=True)
            self._book.put(after)
