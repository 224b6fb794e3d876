"""Reader tasks: repeat a unit of work through lost connections and defects until the context is
left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from nats.errors import Error as NatsError

from slackwater.bus.consume.pull_requests import ConsumerGone, Interrupted
from slackwater.bus.read.ordered_reader import OrderedReader
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

DRAIN_SECONDS = 2.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 5.0

Work = Callable[[], Awaitable[bool]]
"""Runs one round; returns whether there was any work."""


class Interruptible(Protocol):
    """A reader that waits for the broker and can be interrupted when its answer may be lost."""

    def interrupt(self, reason: str) -> None: ...


@dataclass(slots=True)
class Pauses:
    """Growing pauses between failed attempts, so that no fault becomes a busy loop."""

    failures: int = 0

    def reset(self) -> None:
        self.failures = 0

    async def next(self) -> None:
        self.failures += 1
        await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2 ** min(self.failures, 10), LONGEST_PAUSE_SECONDS))


class ReaderTasks:
    """The reader tasks of one connection. `heal` runs when a reader failed; one run at a time is
    enough.
    """

    def __init__(self, heal: Callable[[], Awaitable[None]]) -> None:
        self._heal = heal
        self._healing: asyncio.Task[None] | None = None
        self._readers: dict[Interruptible, None] = {}
        """In the order in which they began: that of a set would differ between two runs of a simulated history."""

    def interrupt(self, reason: str) -> None:
        """End the open requests of all readers: their answers may have been lost."""
        for reader in tuple(self._readers):
            reader.interrupt(reason)

    def reading(self, what: str, work: Work, reader: OrderedReader) -> AbstractAsyncContextManager[None]:
        """As `running`, for a reader that is reset after a failure and closed on leaving."""

        async def work_or_reset() -> bool:
            try:
                return await work()
            except (ConsumerGone, NatsError, TimeoutError):
                await reader.reset()
                raise

        return _Running(self._readers, reader, lambda leaving: self._repeat(what, work_or_reset, leaving), reader.reset)

    def running(self, what: str, work: Work, reader: Interruptible) -> AbstractAsyncContextManager[None]:
        """Repeat `work` while the body runs; on leaving, let the current round finish, for
        DRAIN_SECONDS at most.
        """
        return _Running(self._readers, reader, lambda leaving: self._repeat(what, work, leaving))

    async def _repeat(self, what: str, work: Work, leaving: asyncio.Event) -> None:
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
                    self._begin_to_heal()  # which may take a minute; other partitions of the reader may be in order
            except Exception:
                log.exception("defect of a reader", reader=what)
            await _first_of(leaving.wait(), pauses.next())

    async def heal(self) -> None:
        """Run the heal function now, unless it is running."""
        if self._healing is None or self._healing.done():
            await asyncio.wait({self._begin_to_heal()})

    def _begin_to_heal(self) -> asyncio.Task[None]:
        if self._healing is None or self._healing.done():
            self._healing = asyncio.create_task(self._heal_or_log(), name="heal")
        return self._healing

    async def _heal_or_log(self) -> None:
        try:
            await self._heal()
        except Exception:
            log.exception("defect while streams are declared again")

    async def close(self) -> None:
        """End the heal function, if it is running."""
        if self._healing is not None:
            self._healing.cancel()
            await asyncio.wait({self._healing})


class _Running(AbstractAsyncContextManager[None]):
    """A reader's task while the context is open. It is a class, because at process exit open
    generators are closed in any order, and a nested one would be closed while its parent closes it.
    """

    def __init__(
        self,
        readers: dict[Interruptible, None],
        reader: Interruptible,
        repeat: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._readers = readers
        self._reader = reader
        self._repeat = repeat
        self._close = close
        self._leaving = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._repeat(self._leaving))
        self._readers[self._reader] = None

    async def __aexit__(self, *exception: object) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        self._leaving.set()
        self._readers.pop(self._reader, None)
        self._reader.interrupt("leaving")
        try:
            await asyncio.wait({task}, timeout=DRAIN_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait({task})
            if self._close is not None:
                await self._close()


async def _first_of(*waits: Awaitable[Any]) -> None:
    tasks = {asyncio.ensure_future(wait) for wait in waits}
    _, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in late:
        task.cancel()
