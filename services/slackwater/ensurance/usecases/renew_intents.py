"""Before a lease runs out: the same intent again, for every node that still reports.

Most nodes have no limits. Their leases are longer (see declaring.lease_of), and they take turns, so that each round
renews a part of them: at 10,000 nodes all of them in every round were 2,000 events a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slackwater.ensurance.domain.guarded import Guarded
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declaring import IDLE_LEASES, declared, lease_of
from slackwater.model.identifiers import shard_of
from slackwater.model.time import Clock

RENEWALS_PER_LEASE = 3
AT_ONCE = 200
"""Intents in one transaction; in between, reports have their turn."""


class RenewIntents:
    """The generation stays; only `declared_at` moves. A node that is silent is left to its lease: its throttles go
    back, because nobody can see any more whether they are still needed."""

    def __init__(self, book: Book, clock: Clock, lease_seconds: float, silent_seconds: float) -> None:
        self._book = book
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._silent_seconds = silent_seconds
        self._started_at = clock.now()
        self._round = 0

    @property
    def interval_seconds(self) -> float:
        return self._lease_seconds / RENEWALS_PER_LEASE

    async def __call__(self, *, everybody: bool = False) -> int:
        """Renew what this round is to renew, or every node: who has just become ours may be at the end of its lease.
        Returns how many. Raises Unavailable."""
        self._round += 1
        due = [node.node for node in self._book.nodes() if everybody or self._is_due(node)]
        return sum([await self._renew(due[first : first + AT_ONCE]) for first in range(0, len(due), AT_ONCE)])

    def _is_due(self, node: Guarded) -> bool:
        if lease_of(node, self._lease_seconds) == self._lease_seconds:
            return True
        return (shard_of(node.node) + self._round) % IDLE_LEASES == 0

    async def _renew(self, names: Sequence[str]) -> int:
        async with self._book.turn():
            now = self._clock.now()
            nodes = [node for name in names if (node := self._book.node(name)) and self._is_heard(name, now)]
            if not nodes:
                return 0
            lease = self._lease_seconds
            async with self._book.writing() as unit:
                for node in nodes:
                    await unit.publish(declared(node, self._book.terms(node, now), lease, now, None))
            return len(nodes)

    def _is_heard(self, node: str, now: datetime) -> bool:
        heard_at = self._book.heard_at.get(node, self._started_at)
        return (now - heard_at).total_seconds() <= self._silent_seconds
