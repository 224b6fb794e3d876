"""Who may change the book: nodes side by side, each by one at a time; or somebody everything, alone.

One turn for all nodes was simple, and a queue: a decision takes seven round trips to PostgreSQL, ten of them a second
and what follows them (observed, given back) kept it busy half of the time, and every crossing waited in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

SIDE_BY_SIDE = 3
"""Nodes in hand at once; a service keeps four sessions of PostgreSQL, and something is left for its health."""


@dataclass(slots=True)
class _Queue:
    """For one node."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Turns:
    """First come, first served. Whoever wants everybody waits for those in hand, and nobody begins meanwhile."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(SIDE_BY_SIDE)
        self._gate = asyncio.Lock()
        self._queues: dict[str, _Queue] = {}
        self._in_hand = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def of(self, node: str) -> AsyncIterator[None]:
        """Nobody else changes this node, and nobody changes everything."""
        queue = self._queues.setdefault(node, _Queue())
        queue.users += 1
        try:
            async with queue.lock, self._room:
                async with self._gate:
                    self._in_hand += 1
                    self._idle.clear()
                try:
                    yield
                finally:
                    self._in_hand -= 1
                    if not self._in_hand:
                        self._idle.set()
        finally:
            queue.users -= 1
            if not queue.users:
                del self._queues[node]

    @asynccontextmanager
    async def of_everybody(self) -> AsyncIterator[None]:
        """Nobody else changes anything."""
        async with self._gate:
            await self._idle.wait()
            yield

    def is_free(self, node: str) -> bool:
        """Whether nobody has this node or everything, or waits for it."""
        return node not in self._queues and not self._gate.locked()
