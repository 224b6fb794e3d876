"""Intents that nobody asked for by a report: of nodes that are new to this replica, of nodes that fell silent or came
back, of agents that go on alone although we read them, and of pools that may do more or less than before.

Documents are not renewed by being declared again; their leases are renewed for a whole partition at once
(renew_leases). So whatever an intent says must be declared when it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from slackwater.ensurance.domain.guarded import Guarded
from slackwater.ensurance.ports import NODES
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declaring import declared
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.waterline.cycle import Options

T = TypeVar("T")
AT_ONCE = 200
"""Intents in one transaction; in between, reports have their turn."""


class DeclareAnew:
    """A node is left when no report of it could be used for `silent_seconds`, whatever the reason: its intent then
    holds for no time, and no renewal of its partition counts for it. Its throttles go back, because nobody can see any
    more whether they are still needed, and its agent acts alone.

    An agent that acts alone gives way when our lease is renewed. One that was started while it was cut off only
    remembers what we wanted, and a remembered lease cannot be renewed: who is still alone after two renewals is told
    anew."""

    def __init__(self, book: Book, clock: Clock, lease_seconds: float, silent_seconds: float) -> None:
        self._book = book
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._silent_seconds = silent_seconds
        self._alone_seconds = lease_seconds * 2 / 3
        self._listening_since = clock.now()
        self._options: Mapping[str, Options] = {}

    async def __call__(self) -> int:
        """What has changed since the last time. Returns how many. Raises Unavailable."""
        now, book = self._clock.now(), self._book
        before, self._options = self._options, self._pools(now)
        pools = {pool for pool, options in self._options.items() if before.get(pool, options) != options}
        due = [
            node.node
            for node in book.nodes()
            if self._turned(node.node, now) or self._stays_alone(node.node, now) or node.pool in pools
        ]
        return await self._declare(due)

    async def taken(self, partitions: Collection[int]) -> int:
        """Every node that has just become ours: the one who owned it may have been silent for a while. They count as
        heard, as far as we can know. Raises Unavailable."""
        self._options = {**self._pools(self._clock.now()), **self._options}
        mine = [node.node for node in self._book.nodes() if partition_of(node.node) in partitions]
        return await self._declare(mine)

    async def declare(self, nodes: Sequence[str]) -> int:
        """These, whatever was told of them before. Raises Unavailable."""
        return await self._declare(nodes)

    def interrupted(self) -> None:
        """Bus or PostgreSQL were away: nobody fell silent by that."""
        self._listening_since = self._clock.now()

    def _pools(self, now: datetime) -> Mapping[str, Options]:
        """What the agents of each pool may do when they are alone; it changes with time."""
        of = {node.pool: node for node in self._book.nodes()}
        found = {pool: self._isolated(node, partial(self._book.options, node, now)) for pool, node in of.items()}
        return {pool: options for pool, options in found.items() if options is not None}

    def _isolated(self, node: Guarded, work: Callable[[], T]) -> T | None:
        """None where it fails, and the node is in quarantine."""
        return self._book.quarantine.attempt(NODES, node.node, work, node=node.node)

    def _turned(self, node: str, now: datetime) -> bool:
        """Fell silent, or is heard again."""
        left_at = self._book.left_at.get(node)
        if left_at is None:
            return self._is_silent(node, now)
        return self._book.heard_at.get(node, left_at) > left_at

    def _stays_alone(self, node: str, now: datetime) -> bool:
        since = self._book.alone_since.get(node)
        return since is not None and (now - since).total_seconds() >= self._alone_seconds

    def _is_silent(self, node: str, now: datetime) -> bool:
        heard_at = self._book.heard_at.get(node, self._listening_since)
        return (now - max(heard_at, self._listening_since)).total_seconds() > self._silent_seconds

    async def _declare(self, names: Sequence[str]) -> int:
        return sum([await self._some(names[first : first + AT_ONCE]) for first in range(0, len(names), AT_ONCE)])

    async def _some(self, names: Sequence[str]) -> int:
        async with self._book.turn():
            now = self._clock.now()
            nodes = [node for name in names if (node := self._book.node(name)) is not None]
            for name in names:
                self._note(name, now)
            if nodes:
                async with self._book.writing() as unit:
                    for node in nodes:
                        intent = self._isolated(node, partial(self._intent, node, now))
                        if intent is not None:
                            await unit.publish(intent)
            return len(nodes)

    def _intent(self, node: Guarded, now: datetime) -> Event[IntentDeclared]:
        return declared(node, self._book.terms(node, now), self._lease_seconds, now, None)

    def _note(self, node: str, now: datetime) -> None:
        if self._is_silent(node, now):
            self._book.left_at[node] = now
        else:
            self._book.left_at.pop(node, None)
        self._book.alone_since.pop(node, None)  # told now: from its next report on it is counted anew
