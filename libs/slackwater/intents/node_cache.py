"""The nodes' states in memory, so that an event that changes nothing costs no query. PostgreSQL holds the truth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from slackwater.intents.contacts import Contacts, ReadPositions
from slackwater.intents.ports import IntentStore, IntentUnit, S
from slackwater.model.identifiers import partition_of
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored

MOST_SIDE_BY_SIDE = 3
"""Nodes locked at once. A service has four sessions of PostgreSQL; one stays free for its health check."""


@dataclass(slots=True)
class _Queue:
    """For one node."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class NodeLocks:
    """Locks over nodes: side by side, each held by one task at a time, or one task for all nodes.

    First come, first served. A task that locks all nodes waits for those locked, and no other begins meanwhile. One
    lock for all was a queue: a decision took seven round trips to PostgreSQL, and every crossing waited in it.
    """

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MOST_SIDE_BY_SIDE)
        self._gate = asyncio.Lock()
        self._queues: dict[str, _Queue] = {}
        self._locked = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def node(self, node: str) -> AsyncIterator[None]:
        """No other task changes this node, and none changes all nodes."""
        queue = self._queues.setdefault(node, _Queue())
        queue.users += 1
        try:
            async with queue.lock, self._room:
                async with self._gate:
                    self._locked += 1
                    self._idle.clear()
                try:
                    yield
                finally:
                    self._locked -= 1
                    if not self._locked:
                        self._idle.set()
        finally:
            queue.users -= 1
            if not queue.users:
                del self._queues[node]

    @asynccontextmanager
    async def all_nodes(self) -> AsyncIterator[None]:
        """No other task changes anything."""
        async with self._gate:
            await self._idle.wait()
            yield

    def is_free(self, node: str) -> bool:
        """Whether no task holds this node or all nodes, or waits for it."""
        return node not in self._queues and not self._gate.locked()


U = TypeVar("U", bound=IntentUnit[Any])
T = TypeVar("T")
ALL_NODES = ""


class NodeCache(Generic[S, U]):
    """Nodes of the partitions that this process owns. What is written is written under `lock`: of one node, which keeps
    the order of its documents in the outbox that of their generations, or of all nodes. `table` is the nodes' table, as
    the quarantine names it.
    """

    def __init__(self, store: IntentStore[U], table: str, quarantine: Quarantine | None = None) -> None:
        self.quarantine = quarantine or unstored()
        self.contacts = Contacts()
        self.positions = ReadPositions()
        self._store = store
        self._table = table
        self._partitions: frozenset[int] = frozenset()
        self._locks = NodeLocks()
        self._nodes: dict[str, S] = {}
        self._stale = True

    def node(self, name: str) -> S | None:
        """None for one that is not known, or in quarantine."""
        return None if self.quarantine.holds_node(name) else self._nodes.get(name)

    def nodes(self) -> tuple[S, ...]:
        """Without those in quarantine."""
        out = self.quarantine.nodes
        return tuple(node for name, node in self._nodes.items() if name not in out) if out else (*self._nodes.values(),)

    def put(self, state: S) -> None:
        """Keep a node: either what was just committed, or changes that need no write (counters, last report)."""
        if partition_of(state.node) in self._partitions:  # else it was lost meanwhile
            self._nodes[state.node] = state

    def remove(self, node: str) -> None:
        """Drop a node whose row was just deleted."""
        self._nodes.pop(node, None)
        self.contacts.discard(node)

    def owns(self, partition: int) -> bool:
        """Whether the nodes of a partition are here."""
        return partition in self._partitions

    def isolate(self, node: str, work: Callable[[], T]) -> T | None:
        """The result of work on one node; None if it fails, and the node is in quarantine."""
        return self.quarantine.attempt(self._table, node, work, node=node)

    async def acquire(self, partitions: Collection[int], now: datetime) -> None:
        """Read the nodes of partitions that are ours from now on. They count as having reported now, because how long
        they were silent is not known."""
        async with self._locks.all_nodes():
            async with self._store.unit_of_work() as unit:
                nodes = await unit.nodes(partitions)
            self._partitions |= frozenset(partitions)
            self._nodes.update({node.node: node for node in nodes})
            self.contacts.acquire((node.node for node in nodes), now)
            self.positions.discard(partitions)

    def drop(self, partitions: Collection[int]) -> None:
        """Forget the nodes of partitions that another process owns now."""
        self._partitions -= frozenset(partitions)
        for node in [node for node in self._nodes if partition_of(node) in partitions]:
            del self._nodes[node]
            self.contacts.discard(node)
        self.positions.discard(partitions)

    @asynccontextmanager
    async def lock(self, node: str = ALL_NODES) -> AsyncIterator[None]:
        """Lock one node, or all. After a transaction whose end is not known, what is stored is read first."""
        if node == ALL_NODES:
            async with self._locks.all_nodes():
                await self._refresh_if_stale()
                yield
            return
        while True:
            if self._stale:
                async with self._locks.all_nodes():
                    await self._refresh_if_stale()
            async with self._locks.node(node):
                if not self._stale:
                    yield
                    return

    def is_free(self, node: str) -> bool:
        """Whether a caller that does not wait in between may read and put a node without a lock."""
        return not self._stale and self._locks.is_free(node)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[U]:
        """A transaction under a lock. If it fails anywhere, the next lock starts from what PostgreSQL holds."""
        try:
            async with self._store.unit_of_work() as unit:
                yield unit
        except BaseException:
            self._stale = True
            raise

    async def _refresh_if_stale(self) -> None:
        if self._stale:
            await self._refresh()

    async def _refresh(self) -> None:
        """Read what is stored, and end with `_replace`."""
        async with self._store.unit_of_work() as unit:
            nodes = await unit.nodes(self._partitions)
        self._replace(nodes)

    def _replace(self, nodes: Iterable[S]) -> None:
        self._nodes = {node.node: node for node in nodes if partition_of(node.node) in self._partitions}
        self._stale = False
