"""Locks over the nodes of a process: nodes side by side, each by one task at a time, or one task for all nodes.

One lock for all nodes was simple, and a queue: a decision took seven round trips to PostgreSQL, ten decisions a second
and what follows them kept it busy half of the time, and every crossing waited in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

MOST_SIDE_BY_SIDE = 3
"""Nodes locked at once. A service has four sessions of PostgreSQL; one stays free for its health check."""


@dataclass(slots=True)
class _Queue:
    """For one node."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class NodeLocks:
    """First come, first served. A task that locks all nodes waits for those locked, and no other begins meanwhile."""

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
