"""A bus for an agent that starts before its broker: away until the first connection, then the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

from slackwater.bus.port import BatchHandler, Bus, Consumption, Holds, StreamHead, Worth
from slackwater.bus.read.stream_reader import StreamReader
from slackwater.events.envelope import BroadcastPayload, Event, Payload
from slackwater.events.serialized import Written
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

P = TypeVar("P", bound=Payload)
T = TypeVar("T", bound=BroadcastPayload)
_log = get_logger(__name__)
Connect = Callable[[], AbstractAsyncContextManager[Bus]]


class LateBus:
    """See slackwater.bus.port.Bus; every method raises Unavailable before the first connection."""

    def __init__(self, pause_seconds: float = 1.0) -> None:
        self._pause_seconds = pause_seconds
        self._bus: Bus | None = None
        self.first = asyncio.Event()
        """Set with the first connection."""

    @asynccontextmanager
    async def connecting(self, connect: Connect) -> AsyncIterator[None]:
        """Keep trying beside the body; close the connection when the body ends."""
        leave = asyncio.Event()
        task = asyncio.create_task(self._hold(connect, leave))
        try:
            yield
        finally:
            leave.set()
            if self._bus is None:
                task.cancel()
            await asyncio.wait([task])

    async def _hold(self, connect: Connect, leave: asyncio.Event) -> None:
        is_logged = False
        while not leave.is_set():
            try:
                async with connect() as bus:
                    self._bus = bus
                    self.first.set()
                    await leave.wait()
            except Unavailable as error:
                if not is_logged:
                    _log.warning("bus not reached yet", error=error.message)
                is_logged = True
                await asyncio.sleep(self._pause_seconds)
            finally:
                self._bus = None

    def _connected(self) -> Bus:
        if self._bus is None:
            raise Unavailable("not connected to the bus yet")
        return self._bus

    async def publish(self, event: Event[Any]) -> int:
        return await self._connected().publish(event)

    async def carry(self, event: Written) -> None:
        await self._connected().carry(event)

    def consume(
        self,
        payload: type[P],
        consumer: str,
        handler: BatchHandler[P],
        *,
        batch: int = 100,
        holds: Holds | None = None,
        worth: Worth | None = None,
    ) -> AbstractAsyncContextManager[Consumption]:
        return self._connected().consume(payload, consumer, handler, batch=batch, holds=holds, worth=worth)

    def watch(
        self,
        payload: type[P],
        handler: Callable[[Event[P]], Awaitable[None]],
        *,
        key: str | None = None,
        caught_up: Callable[[], None] | None = None,
    ) -> AbstractAsyncContextManager[None]:
        return self._connected().watch(payload, handler, key=key, caught_up=caught_up)

    async def broadcast(self, event: Event[Any]) -> None:
        await self._connected().broadcast(event)

    def subscribe(
        self, payload: type[T], handler: Callable[[Event[T]], Awaitable[None]], *, partition: int
    ) -> AbstractAsyncContextManager[None]:
        return self._connected().subscribe(payload, handler, partition=partition)

    def replay(
        self,
        payload: type[P],
        handler: BatchHandler[P],
        *,
        after_sequence: int,
        batch: int = 500,
        partition: int | None = None,
    ) -> AbstractAsyncContextManager[None]:
        connected = self._connected()
        return connected.replay(payload, handler, after_sequence=after_sequence, batch=batch, partition=partition)

    def follow(
        self,
        payloads: Sequence[type[Payload]],
        *,
        after: Mapping[str, int] | None = None,
        since: datetime | None = None,
        keys: Sequence[str] = (),
        bodies: bool = True,
    ) -> AbstractAsyncContextManager[StreamReader]:
        return self._connected().follow(payloads, after=after, since=since, keys=keys, bodies=bodies)

    async def mark(self, payloads: Sequence[type[Payload]]) -> StreamHead:
        return await self._connected().mark(payloads)

    async def latest(self, payload: type[P], node: str) -> Event[P] | None:
        return await self._connected().latest(payload, node)

    async def settled_up_to(self, consumer: str) -> int:
        return await self._connected().settled_up_to(consumer)

    async def connected(self) -> bool:
        return self._bus is not None and await self._bus.connected()
