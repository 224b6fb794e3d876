"""The console over the in-memory read model, on a port of its own, in a thread of its own."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.support.broker_admin import MemoryAdmin
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import FLEET, LENGTH_SECONDS, story
from tests.support.story_resources import resources

from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.console.domain.fleet import LEVEL_SECONDS, FleetLevel
from slackwater.console.edge.events import routes
from slackwater.console.edge.stream import Streams
from slackwater.console.ports import DemoRuns
from slackwater.console.service import routers_of
from slackwater.console.usecases.fleet_level import FleetLevelRecorder
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.envelope import Event, Payload
from slackwater.model.quantities import Resources
from slackwater.offers.lent_use import lent_use
from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.settings import HttpSettings

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
    keep: FleetLevelRecorder
    model: MemoryReadModel
    rest: list[Event[Any]]

    def tell(self, seconds: float) -> None:
        """Let this much of the story happen: its events arrive in order, and the clock moves on."""
        asyncio.run_coroutine_threadsafe(self._tell(seconds), self.loop).result(timeout=20)

    def remember(self, hours: float) -> None:
        """Give the fleet a past, as kept levels."""

        async def save() -> None:
            for level in earlier_levels(self.clock.now(), hours):
                await self.model.save_level(level, level.at)

        asyncio.run_coroutine_threadsafe(save(), self.loop).result(timeout=20)

    def bury(self, reason: str, detail: str, body: bytes, *, event: str = "decision.recorded") -> None:
        """A message that a consumer gives up."""
        headers = {
            "ce-id": f"event-{reason}",
            "ce-type": f"io.slackwater.{event}.v1",
            "ce-time": "2026-01-05T09:31:07Z",
        }
        subject = f"sw.v1.{event}.7.edge-7"
        letter = DeadLetter(f"console-{event.replace('.', '-')}", reason, detail, subject, headers, body, 41)
        asyncio.run_coroutine_threadsafe(self.bus.broker.bury(letter), self.loop).result(timeout=20)

    async def _tell(self, seconds: float) -> None:
        """In steps, so that the level of the fleet is kept on its way as it would be."""
        until = self.clock.now() + timedelta(seconds=seconds)
        while (left := (until - self.clock.now()).total_seconds()) > 0:
            await self.clock.advance(min(left, LEVEL_SECONDS))
            now = [event for event in self.rest if event.time <= self.clock.now()]
            self.rest = self.rest[len(now) :]
            await record_all(self.record, now)
            await self.keep()
            self.bus.broker.consumed_all()
            for event in now:
                await self.bus.publish(event)


def earlier_levels(end: datetime, hours: float) -> list[FleetLevel]:
    """What the fleet's level was before the story began: owners work by day, lower tiers take what is left."""
    whole, gib, found = sum(node.capacity_milli for node in FLEET), 2**30, []
    for step in range(int(hours * 3600 / LEVEL_SECONDS), 0, -1):
        at = end - timedelta(seconds=LENGTH_SECONDS + step * LEVEL_SECONDS)
        hour = at.timestamp() / 3600
        prod = round(9400 + 2600 * math.sin(hour / 2.1) + 350 * math.sin(hour * 5))
        offered = whole - 1600 - 4800 - prod - 2500
        batch = round(offered * (0.72 + 0.22 * math.sin(hour * 1.3) + 0.05 * math.sin(hour * 7)))
        tiers = {"prod": Resources(prod, 70 * gib), "mid": Resources(1400, 4 * gib), "batch": Resources(batch, 8 * gib)}
        found.append(
            FleetLevel(
                at=at,
                nodes=len(FLEET),
                silent=0,
                capacity=Resources(whole, whole // 1000 * 4 * gib),
                requested=Resources(22000, 12 * gib),
                offered=Resources(offered, 56 * gib),
                usage=Resources(prod + batch + 2400, 90 * gib),
                system=Resources(1000, 2 * gib),
                tiers=tiers,
                borrowed=lent_use(Resources(offered, 56 * gib), tiers).borrowed,
            )
        )
    return found


async def record_all(record: RecordEvents, events: Sequence[Event[Any]]) -> None:
    """Through the same handlers as from the bus, a batch per type."""
    by_type = defaultdict[type[Payload], list[Event[Any]]](list)
    for event in events:
        by_type[type(event.data)].append(event)
    for payload, batch in by_type.items():
        await routes(record)[payload](batch)


@contextmanager
def served(second: float = LENGTH_SECONDS, end: datetime = END, demo: DemoRuns | None = None) -> Iterator[Served]:
    """A console that has received the first `second` seconds of the story."""
    start = end - timedelta(seconds=LENGTH_SECONDS)
    clock, model = FakeClock(start), MemoryReadModel()
    bus = BusOfWhatIsRecorded(clock=clock)
    streams = Streams(bus, clock)
    month = timedelta(days=30)
    record = RecordEvents(model, clock, usage_retention=month, decision_retention=month)
    server = HttpServer(HttpSettings(host="127.0.0.1", port=0))
    routers = routers_of(model, streams, clock, MemoryAdmin(bus.broker), lambda: bus.blocks, demo)
    app = build_app(routers, _no_checks, HttpSettings(host="127.0.0.1", port=0))
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
        console = Served(
            server.url, bus, streams, clock, loop, record, FleetLevelRecorder(model, clock), model, story(end)
        )
        asyncio.run_coroutine_threadsafe(record_all(record, resources(start)), loop).result(timeout=20)
        console.tell(second)
        yield console
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join(20)
        runner.close()
