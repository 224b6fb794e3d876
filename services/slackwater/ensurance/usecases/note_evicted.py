"""On eviction.completed: a pod that has ended takes no part any more, even before a report says so; one that was
refused is left alone for a while, and the next candidate is tried."""

from __future__ import annotations

from dataclasses import replace

from slackwater.ensurance.domain.guarded import Guarded, ended
from slackwater.ensurance.ports import Meter
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declaring import SOURCE, declared
from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.model.time import Clock
from slackwater.waterline.guarding import evicted_alone, eviction_failed

STANDS_IN = "agent"
"""The writer of evictions that an agent decides about while it hears nobody."""
ENDED = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED})
GONE = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED, EvictionOutcome.ALREADY_GONE})


class NoteEvicted:
    """Whoever asked for the eviction: the limit of a pod that is gone leaves the intent. Idempotent."""

    def __init__(self, book: Book, clock: Clock, meter: Meter, lease_seconds: float) -> None:
        self._meter = meter
        self._book = book
        self._clock = clock
        self._lease_seconds = lease_seconds

    async def __call__(self, event: Event[EvictionCompleted]) -> None:
        seen = event.data
        self._meter.evicted(seen.outcome)
        async with self._book.turn(seen.node):
            before = self._book.node(seen.node)
            if before is None:
                return
            after = self._after(before, seen)
            if after == before:
                return
            async with self._book.writing() as unit:
                if after.generation != before.generation:
                    now = self._clock.now()
                    await unit.publish(declared(after, self._book.terms(after, now), self._lease_seconds, now, event))
                after = await unit.save(after, last=True)
            self._book.put(after)

    def _after(self, before: Guarded, seen: EvictionCompleted) -> Guarded:
        gone = seen.outcome in GONE
        after = ended(before, seen.id, seen.pod_uid, seen.completed_at, gone=gone)
        if seen.writer == STANDS_IN and seen.outcome in ENDED:
            after = replace(after, state=evicted_alone(after.state, seen.completed_at))
        mine = any(one.id == seen.id for one in before.evictions)
        if gone or not mine or seen.writer != SOURCE:
            return after
        because = f"its eviction was {seen.outcome}" + (f": {seen.detail}" if seen.detail else "")
        limits = self._book.rules.limits_of(before.pool)
        return replace(after, state=eviction_failed(after.state, seen.pod_uid, because, self._clock.now(), limits))
