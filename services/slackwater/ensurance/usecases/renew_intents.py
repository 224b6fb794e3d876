"""Before a lease runs out: the same intent again, for every node that still reports."""

from __future__ import annotations

from datetime import datetime

from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declaring import declared
from slackwater.model.time import Clock

RENEWALS_PER_LEASE = 3


class RenewIntents:
    """The generation stays; only `declared_at` moves. A node that is silent is left to its lease: its throttles go
    back, because nobody can see any more whether they are still needed."""

    def __init__(self, book: Book, clock: Clock, lease_seconds: float, silent_seconds: float) -> None:
        self._book = book
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._silent_seconds = silent_seconds
        self._started_at = clock.now()

    @property
    def interval_seconds(self) -> float:
        return self._lease_seconds / RENEWALS_PER_LEASE

    async def __call__(self) -> int:
        """Renew once; returns how many. Raises Unavailable."""
        async with self._book.turn():
            now = self._clock.now()
            heard = [node for node in self._book.nodes() if self._is_heard(node.node, now)]
            if not heard:
                return 0
            async with self._book.writing() as unit:
                for node in heard:
                    await unit.publish(
                        declared(node, self._book.rules, self._lease_seconds, now, None, self._book.epoch_of(node.node))
                    )
            return len(heard)

    def _is_heard(self, node: str, now: datetime) -> bool:
        heard_at = self._book.heard_at.get(node, self._started_at)
        return (now - heard_at).total_seconds() <= self._silent_seconds
