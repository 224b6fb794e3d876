"""In a cluster of brokers: leaves a server that is cut off from the others; adds replicas when the cluster grows."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from nats.aio.client import Client
from nats.errors import Error as NatsError

from slackwater.bus.connect.access import API_PREFIX
from slackwater.bus.connect.nats_client import SteadyClient, is_clustered
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

LOOK_SECONDS = 2.0
USELESS_SECONDS = 10.0
"""A server of which nothing has come for so long is left for another. Electing a leader takes less."""
LONGEST_USELESS_SECONDS = 80.0
"""The time doubles with each move that did not help, so that a whole cluster out of order is not stormed."""
GROWTH_SECONDS, LONGEST_GROWTH_SECONDS = 2.0, 30.0
"""Pause before replicas are asked for again, doubled each time: a cluster that is starting has room soon, and until
then what is acknowledged is on one server.
"""
ANSWER_SECONDS = 2.0


class Watched(Protocol):
    """The part of a bus that is watched."""

    def connections(self) -> Mapping[str, Client]: ...
    async def is_served(self, client: Client) -> bool: ...
    async def grow(self) -> None: ...
    async def revive(self) -> None: ...


class FailoverWatch:
    """Looks at the connections of one bus. A server that lost the others keeps its clients, and answers pings; only
    JetStream shows that it is of no use.
    """

    def __init__(self, bus: Watched) -> None:
        self._bus = bus
        self._useless_since: dict[str, float] = {}
        self._limits: dict[str, float] = {}
        self._growth_pause = GROWTH_SECONDS
        self._grown_at = 0.0

    async def run(self) -> None:
        """Look until cancelled."""
        self._grown_at = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.check()
            except Exception:
                log.exception("defect of the watch over the brokers")

    async def check(self) -> None:
        """Look once at every connection, and now and then at the number of replicas."""
        for name, client in self._bus.connections().items():
            if client.is_connected and is_clustered(client):
                await self._check_connection(name, client)
        now = asyncio.get_running_loop().time()
        if now - self._grown_at >= self._growth_pause:
            self._grown_at = now
            self._growth_pause = min(2 * self._growth_pause, LONGEST_GROWTH_SECONDS)
            with suppress(Unavailable, Misconfigured):
                await self._bus.grow()

    async def _check_connection(self, name: str, client: Client) -> None:
        if await self._bus.is_served(client):
            self._useless_since.pop(name, None)
            self._limits.pop(name, None)
            return
        now = asyncio.get_running_loop().time()
        since = self._useless_since.setdefault(name, now)
        limit = self._limits.setdefault(name, USELESS_SECONDS * random.uniform(1, 1.5))
        if now - since < limit or not isinstance(client, SteadyClient) or not client.is_connected:
            return
        log.warning("leaving a broker that serves nothing", client=name, seconds=round(now - since, 1))
        del self._useless_since[name]
        self._limits[name] = min(2 * limit, LONGEST_USELESS_SECONDS)
        await client.move_on()


async def answers_jetstream(client: Client) -> bool:
    """Returns whether JetStream's leader answers through this connection."""
    try:
        answer = await client.request(f"{API_PREFIX}.INFO", timeout=ANSWER_SECONDS)
        return "error" not in json.loads(answer.data)
    except (NatsError, TimeoutError, ValueError):
        return False


@asynccontextmanager
async def watching(bus: Watched) -> AsyncIterator[None]:
    """Watch a bus while the body runs. Consumers are looked at beside its connections: a server without answers must
    not hold up leaving it.
    """
    tasks = {asyncio.create_task(FailoverWatch(bus).run()), asyncio.create_task(_revive(bus))}
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _revive(bus: Watched) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await bus.revive()
        except Exception:
            log.exception("defect of the watch over consumers")
