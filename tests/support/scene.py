"""Services in memory, built by their own composition roots: one bus, one clock that the test advances, and one
database per service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock
from tests.support.statements import answer_common
from tests.support.store import MemoryDatabase

from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Service

S = TypeVar("S", bound=Service)
NOWHERE: Mapping[str, Callable[[MemoryDatabase], object]] = MappingProxyType({})
_TURNS = 1000


class Scene:
    """The in-memory `platform` of composition roots. `answers` by service are the results of its own SQL statements."""

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
        """The database of one service; it outlives its processes."""
        if service not in self._databases:
            database = self._databases[service] = MemoryDatabase(clock=self.clock)
            answer_common(database.answers, database.announce)
            if service in self._answers:
                self._answers[service](database)
        return self._databases[service]

    @asynccontextmanager
    async def running(self, build: Callable[[Any, Platform], S], settings: Any) -> AsyncIterator[S]:
        """Runs a service that has started and acquired its partitions; stops it in order at the end."""
        service, started = build(settings, self.platform), asyncio.Event()
        running = asyncio.create_task(service.run(started.set), name=service.name)
        for _ in range(_TURNS):
            if started.is_set() or running.done():
                break
            await self.clock.advance(0)
        if running.done():
            running.result()
        assert started.is_set(), f"{service.name} does not start"
        try:
            yield service
        finally:
            running.cancel()
            await asyncio.wait([running])
        if not running.cancelled():
            running.result()

    async def settle(self) -> None:
        """Wait until all published events and the events that result from them have been handled."""
        published = -1
        while published != len(self.bus.published):
            published = len(self.bus.published)
            await self.bus.idle()
            await self.clock.advance(0)

    async def advance(self, seconds: float) -> None:
        """Advance the time and run the work that is due."""
        await self.clock.advance(seconds)
        await self.settle()
