"""The console over the in-memory read model, on a port of its own, in a thread of its own."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from slackwater.console.adapters.memory import MemoryReadModel
from slackwater.console.edge.events import routes
from slackwater.console.edge.stream import Streams
from slackwater.console.service import routers_of
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.envelope import Event, Payload
from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.settings import HttpSettings
from slackwater.testing.bus import MemoryBus
from slackwater.testing.clock import EPOCH, FakeClock
from slackwater.testing.story import LENGTH_SECONDS, story

END = EPOCH + timedelta(hours=10)


async def _no_checks() -> Sequence[Any]:
    return []


class BusOfWhatIsRecorded(MemoryBus):
    """Here everything is in the read model before it is published."""

    async def settled_up_to(self, consumer: str) -> int:
        return sys.maxsize


@dataclass
class Served:
    """A console that stands `second` seconds into the story; `tell` lets it go on."""

    url: str
    bus: MemoryBus
    streams: Streams
    clock: FakeClock
    loop: asyncio.AbstractEventLoop
    record: RecordEvents
    rest: list[Event[Any]]

    def tell(self, seconds: float) -> None:
        """Let this much of the story happen: its events arrive in order, and the clock moves on."""
        asyncio.run_coroutine_threadsafe(self._tell(seconds), self.loop).result(timeout=20)

    async def _tell(self, seconds: float) -> None:
        until = self.clock.now() + timedelta(seconds=seconds)
        now = [event for event in self.rest if event.time <= until]
        self.rest = self.rest[len(now) :]
        await self.clock.advance(seconds)
        await record_all(self.record, now)
        for event in now:
            await self.bus.publish(event)


async def record_all(record: RecordEvents, events: Sequence[Event[Any]]) -> None:
    """Through the same handlers as from the bus, a batch per type."""
    by_type = defaultdict[type[Payload], list[Event[Any]]](list)
    for event in events:
        by_type[type(event.data)].append(event)
    for payload, batch in by_type.items():
        await routes(record)[payload](batch)


@contextmanager
def served(second: float = LENGTH_SECONDS, end: datetime = END) -> Iterator[Served]:
    """A console that has heard the first `second` seconds of the story."""
    start = end - timedelta(seconds=LENGTH_SECONDS)
    clock, model = FakeClock(start), MemoryReadModel()
    bus = BusOfWhatIsRecorded(clock=clock)
    streams = Streams(bus, clock)
    month = timedelta(days=30)
    record = RecordEvents(model, clock, usage_retention=month, decision_retention=month)
    server = HttpServer(HttpSettings(host="127.0.0.1", port=0))
    app = build_app(routers_of(model, streams, clock), _no_checks, HttpSettings(host="127.0.0.1", port=0))
    runner = asyncio.Runner()
    loop, ready = runner.get_loop(), threading.Event()

    async def serve() -> None:
        await server.run(app, ready.set)

    serving = loop.create_task(serve())

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(asyncio.wait([serving]))

    thread = threading.Thread(target=run, name="console")
    thread.start()
    try:
        assert ready.wait(20)
        console = Served(server.url, bus, streams, clock, loop, record, story(end))
        console.tell(second)
        yield console
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join(20)
        runner.close()
