"""The nodes' states in memory, so that an event that changes nothing costs no query. PostgreSQL holds the truth."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Generic, TypeVar

from slackwater.intents.contacts import Contacts, ReadPositions
from slackwater.intents.node_locks import NodeLocks
from slackwater.intents.ports import IntentStore, IntentUnit, S
from slackwater.model.identifiers import partition_of
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored

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
            self._nodes.update({one.node: one for one in nodes})
            self.contacts.acquire((one.node for one in nodes), now)
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
        self._nodes = {one.node: one for one in nodes if partition_of(one.node) in self._partitions}
        self._stale = False
