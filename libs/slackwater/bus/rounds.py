"""Readers that go on: a round of work again and again, through lost connections and defects, until it is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from nats.errors import Error as NatsError

from slackwater.bus.ordered import OrderedReader
from slackwater.bus.pulling import ConsumerGone, Interrupted, Pauses
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

DRAIN_SECONDS = 2.0


class Interruptible(Protocol):
    """What waits for the broker and can be told that its answer may not come."""

    def interrupt(self, reason: str) -> None: ...


class Rounds:
    """The readers of one connection. `heal` is tried when a reader failed; one at a time is enough."""

    def __init__(self, heal: Callable[[], Awaitable[None]]) -> None:
        self._heal = heal
        self._healing = False
        self._readers: set[Interruptible] = set()

    def interrupt(self, reason: str) -> None:
        """End the open requests of all readers: their answers may have been lost."""
        for reader in self._readers:
            reader.interrupt(reason)

    @asynccontextmanager
    async def reading(
        self, what: str, work: Callable[[], Awaitable[bool]], reader: OrderedReader
    ) -> AsyncIterator[None]:
        async def work_or_reset() -> bool:
            try:
                return await work()
            except (ConsumerGone, NatsError, TimeoutError):
                await reader.reset()
                raise

        async with self.running(what, work_or_reset, reader):
            try:
                yield
            finally:
                await reader.reset()

    @asynccontextmanager
    async def running(
        self, what: str, work: Callable[[], Awaitable[bool]], reader: Interruptible
    ) -> AsyncIterator[None]:
        """Repeat `work` beside the body; on leaving, let the round in hand finish, for DRAIN_SECONDS at most."""
        leaving = asyncio.Event()
        task = asyncio.create_task(self._repeat(what, work, leaving), name=what)
        self._readers.add(reader)
        try:
            yield
        finally:
            leaving.set()
            self._readers.discard(reader)
            reader.interrupt("leaving")
            await asyncio.wait({task}, timeout=DRAIN_SECONDS)
            task.cancel()
            await asyncio.wait({task})

    async def _repeat(self, what: str, work: Callable[[], Awaitable[bool]], leaving: asyncio.Event) -> None:
        pauses = Pauses()
        while not leaving.is_set():
            try:
                if await work():
                    pauses.reset()
                    continue
            except Interrupted:
                continue  # a new connection, or leaving: ask again at once
            except (ConsumerGone, NatsError, TimeoutError, Unavailable) as error:
                if not leaving.is_set():
                    log.info("reader tries again", reader=what, error=str(error))
                    await self.heal()
            except Exception:
                log.exception("defect of a reader", reader=what)
            await _first_of(leaving.wait(), pauses.next())

    async def heal(self) -> None:
        """Have it tried now, unless it is being tried."""
        if self._healing:
            return
        self._healing = True
        try:
            await self._heal()
        finally:
            self._healing = False


async def _first_of(*waits: Awaitable[Any]) -> None:
    tasks = {asyncio.ensure_future(wait) for wait in waits}
    _, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
