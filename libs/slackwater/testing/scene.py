"""Services in memory, built and run as their composition roots say: a bus, a clock that the test moves, and a database
for each service. A scene rewires nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Service
from slackwater.testing.bus import MemoryBus
from slackwater.testing.clock import FakeClock
from slackwater.testing.statements import answer_common
from slackwater.testing.store import MemoryDatabase

S = TypeVar("S", bound=Service)
NOWHERE: Mapping[str, Callable[[MemoryDatabase], object]] = MappingProxyType({})
_TURNS = 1000


class Scene:
    """What composition roots are handed (`platform`), in memory. `answers` by service say what its own SQL answers."""

    def __init__(
        self,
        clock: FakeClock | None = None,
        bus: MemoryBus | None = None,
        answers: Mapping[str, Callable[[MemoryDatabase], object]] = NOWHERE,
    ) -> None:
        self.clock = clock or FakeClock()
        self.bus = bus or MemoryBus(clock=self.clock)
        self._answers = answers
        self._databases: dict[str, MemoryDatabase] = {}
        self.platform = Platform(self.bus, self.clock, self.database, Path("/nowhere"))

    def database(self, service: str) -> MemoryDatabase:
        """Of one service; it outlives its processes."""
        if service not in self._databases:
            database = self._databases[service] = MemoryDatabase(clock=self.clock)
            answer_common(database.answers, database.announce)
            if service in self._answers:
                self._answers[service](database)
        return self._databases[service]

    @asynccontextmanager
    async def running(self, build: Callable[[Any, Platform], S], settings: Any) -> AsyncIterator[S]:
        """A service that has started and taken its partitions; stopped in good order at the end."""
        service, started = build(settings, self.platform), asyncio.Event()
        running = asyncio.create_task(service.run(started.set), name=service.name)
        for _ in range(_TURNS):
            if started.is_set() or running.done():
                break
            await self.clock.advance(0)
        if running.done():
            running.result()
        assert started.is_set(), f"{service.name} does not start"  # noqa: S101 - a test is told
        try:
            yield service
        finally:
            running.cancel()
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()

    async def settle(self) -> None:
        """Until everything that was published has been handled, and what came of it too."""
        published = -1
        while published != len(self.bus.published):
            published = len(self.bus.published)
            await self.bus.idle()
            await self.clock.advance(0)

    async def advance(self, seconds: float) -> None:
        """Time passes, and what is due is done."""
        await self.clock.advance(seconds)
        await self.settle()
