"""A service over real servers whose state is damaged by hand: what is planted, and what is seen of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
from prometheus_client import REGISTRY
from tests.support.windows import START

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.state_quarantined import StateQuarantined
from slackwater.model.errors import NotFound
from slackwater.runtime.platform import Platform, new_member
from slackwater.store.engine import connect_database
from slackwater.store.quarantine import Item, Quarantine


class NodeTime:
    """Wall time stands where the test's windows are; waiting is real."""

    def __init__(self) -> None:
        self.minutes = 0

    def now(self) -> Any:
        return START + timedelta(minutes=self.minutes, seconds=5)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Site:
    """One service on its schema; `sql` is a session of its own role."""

    def __init__(self, bus: NatsBus, address: str, service: str, sql: asyncpg.Connection[Any], path: Path) -> None:
        self.bus = bus
        self.sql = sql
        self.service = service
        self.clock = NodeTime()
        self.told: list[StateQuarantined] = []
        self.offers: list[ResourcesOffered] = []
        self._address = address
        self._path = path

    @asynccontextmanager
    async def running(self, module: Any, settings: Any) -> AsyncIterator[Any]:
        """The service, started: it takes its partitions before the body runs."""
        database = connect_database(self._address, self.service, self.clock)
        platform = Platform(self.bus, self.clock, lambda _: database, self._path, new_member())
        service = module.build(settings, platform)
        ready = asyncio.Event()
        task = asyncio.create_task(service.run(ready.set))
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
            yield service
            assert not task.done(), "the service has ended"
        finally:
            task.cancel()
            waiting.cancel()
            await asyncio.gather(task, waiting, return_exceptions=True)
            await database.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        async def on_told(batch: Any) -> list[Settlement]:
            for received in batch:
                self._note(received)
            return [Done()] * len(batch)

        async def on_offer(event: Any) -> None:
            self.offers.append(event.data)

        async with (
            self.bus.replay(StateQuarantined, on_told, after_sequence=0),
            self.bus.watch(ResourcesOffered, on_offer),
        ):
            yield

    def _note(self, received: Received[StateQuarantined]) -> None:
        self.told.append(received.event.data)

    async def item(self, quarantine: Quarantine, table: str, row: str) -> Item:
        """As it is stored, as soon as it is: with its metric and its event."""

        async def stored() -> Item | None:
            found = [one for one in await quarantine.items() if (one.table, one.row) == (table, row)]
            return found[0] if found else None

        item: Item = await eventually(stored)
        labels = {"service": self.service, "table": table}
        await eventually(lambda: REGISTRY.get_sample_value("slackwater_state_quarantined_rows", labels))
        await eventually(lambda: self.was_released(item) is False)
        return item

    async def items(self, quarantine: Quarantine, table: str, rows: Iterable[str]) -> dict[str, Item]:
        """The same of several rows, by row; the metric counts them all."""
        items = {row: await self.item(quarantine, table, row) for row in rows}
        labels = {"service": self.service, "table": table}
        await eventually(
            lambda: (REGISTRY.get_sample_value("slackwater_state_quarantined_rows", labels) or 0) >= len(items)
        )
        return items

    async def release(self, quarantine: Quarantine, item: Item) -> None:
        """Release it, and see that it does not come back."""
        with suppress(NotFound):  # the service's own look at the repaired row may be first
            await quarantine.release(item.id)
        await quarantine.work()
        assert not [one for one in await quarantine.items() if one.id == item.id]
        await eventually(lambda: self.was_released(item) is True)

    def was_released(self, item: Item) -> bool | None:
        """What the last event about an item says; None without one."""
        return next((told.released for told in reversed(self.told) if told.id == item.id), None)


def node_of(how: str) -> str:
    """The name of the node that is broken in this way."""
    return how.lower().replace(" ", "-")


def left_out(service: str, event_type: str) -> float:
    """How many events of a type this service has left out so far, because their node was in quarantine."""
    labels = {"service": service, "event": event_type}
    return REGISTRY.get_sample_value("slackwater_state_quarantined_events_total", labels) or 0.0


async def eventually(condition: Callable[[], Any] | Callable[[], Awaitable[Any]]) -> Any:
    """What the condition returns as soon as it is true; the test's own timeout is the limit."""
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        await asyncio.sleep(0.02)
