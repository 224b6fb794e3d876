"""On eviction.completed: a pod that has ended takes no part any more, even before a report says so."""

from __future__ import annotations

from dataclasses import replace

from slackwater.ensurance.ports import Meter
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declaring import declared
from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.model.time import Clock

GONE = frozenset({EvictionOutcome.TERMINATED, EvictionOutcome.KILLED, EvictionOutcome.ALREADY_GONE})


class NoteEvicted:
    """Whoever asked for the eviction: the limit of a pod that is gone leaves the intent. Idempotent."""

    def __init__(self, book: Book, clock: Clock, meter: Meter, lease_seconds: float) -> None:
        self._meter = meter
        self._book = book
        self._clock = clock
        self._lease_seconds = lease_seconds

    async def __call__(self, event: Event[EvictionCompleted]) -> None:
        ended = event.data
        self._meter.evicted(ended.outcome)
        if ended.outcome not in GONE:
            return
        async with self._book.turn():
            before = self._book.node(ended.node)
            if before is None or before.state.limit_of(ended.pod_uid) is None:
                return
            kept = tuple(t for t in before.state.throttles if t.uid != ended.pod_uid)
            after = replace(
                before,
                generation=before.generation + 1,
                state=replace(before.state, throttles=kept),
                decisions=tuple(pair for pair in before.decisions if pair[0] != ended.pod_uid),
            )
            async with self._book.writing() as unit:
                now = self._clock.now()
                epoch = self._book.epoch_of(after.node)
                await unit.publish(declared(after, self._book.policy, self._lease_seconds, now, event, epoch))
                after = await unit.save(after)
            self._book.put(after)
