"""Reads level-triggered events: the last value of every key, then every change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from slackwater.bus.port import Bus
from slackwater.events.envelope import Event, Payload

W = TypeVar("W", bound=Payload)


class BusWatch(Generic[W]):
    """Without a consumer in streams.yaml: only the newest value counts, and nothing is left unread in installations
    without this service. `begun` is called when values are received, `caught_up` when all that are stored were."""

    def __init__(
        self,
        bus: Bus,
        payload: type[W],
        receive: Callable[[Event[W]], Awaitable[None]],
        begun: Callable[[], None] = lambda: None,
        caught_up: Callable[[], None] | None = None,
    ) -> None:
        self._bus = bus
        self._payload = payload
        self._receive = receive
        self._begun = begun
        self._caught_up = caught_up

    async def __call__(self) -> None:
        """Read until cancelled."""
        async with self._bus.watch(self._payload, self._receive, caught_up=self._caught_up):
            self._begun()
            await asyncio.Event().wait()
