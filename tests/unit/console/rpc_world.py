"""A console's gRPC on buses and read models in memory, and what a client sees of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import grpc.aio
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.console.read_model import MemoryReadModel
from tests.support.reports import described

from slackwater.console.adapters.offer_board import OfferBoard
from slackwater.console.edge.rpc import Colocation, rpc_part
from slackwater.events.envelope import event_of
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.quantities import Resources
from slackwater.model.time import SystemClock
from slackwater.runtime.rpc import RpcServer
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings, RpcSettings
from slackwater.v1 import colocation_service_pb2 as api
from slackwater.v1 import colocation_service_pb2_grpc as stubs

PATIENCE_SECONDS = 60.0
Message = api.WatchOffersResponse


async def well() -> Sequence[Check]:
    return ()


@dataclass
class Served:
    """One process: `service` is a client of it; `stop()` is what SIGTERM does."""

    service: stubs.ColocationServiceStub
    channel: grpc.aio.Channel
    server: RpcServer
    board: OfferBoard
    stop: Callable[[], Any]


class HurriedClock(SystemClock):
    """Waits are twenty times shorter; what time it is stays true."""

    def monotonic(self) -> float:
        return 20 * super().monotonic()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 20)


class RpcWorld:
    """The broker and the read model outlive the processes that serve them."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.bus = MemoryBus(self.broker)
        self.model = MemoryReadModel()
        self.generations: dict[str, int] = {}

    async def offer(self, *nodes: str, degraded: str | None = None) -> None:
        """A new offer of each node, one generation higher."""
        for node in nodes:
            generation = self.generations[node] = self.generations.get(node, 0) + 1
            data = ResourcesOffered(
                node=node,
                offered_at=datetime.now(UTC),
                generation=generation,
                batch=Resources(1000 * generation, 2**30),
                degraded=degraded,
                decision_ids={"batch-cpu": f"{node}-{generation}"},
            )
            await self.bus.publish(event_of(data, source="tests", time=data.offered_at))

    async def describe(self, node: str, pool: str) -> None:
        data = described(node, datetime.now(UTC))
        data = data.model_copy(update={"facts": _in_pool(data.facts, pool)})
        await self.bus.publish(event_of(data, source="tests", time=data.described_at))

    @asynccontextmanager
    async def served(self, *, slow_seconds: float = 30.0) -> AsyncIterator[Served]:
        clock = HurriedClock()
        board = OfferBoard(self.bus, clock)
        part = rpc_part(Colocation(self.model, board, clock, timedelta(seconds=180), slow_seconds))
        server = RpcServer(RpcSettings(port=0), HttpSettings.local(), [part], well)
        ready = asyncio.Event()
        reading = asyncio.create_task(board.run())
        serving = asyncio.create_task(server.run(ready.set))

        async def stop() -> None:
            serving.cancel()
            await asyncio.wait([serving])

        try:
            with anyio.fail_after(PATIENCE_SECONDS):
                await ready.wait()
            async with grpc.aio.insecure_channel(server.address) as channel:
                yield Served(stubs.ColocationServiceStub(channel), channel, server, board, stop)
        finally:
            reading.cancel()
            await stop()
            await asyncio.wait([reading])


def _in_pool(facts: Any, pool: str) -> Any:
    return replace(facts, pool=pool)


class Client:
    """What a scheduler keeps."""

    def __init__(self, served: Served, token: str = "", **request: Any) -> None:
        self.call = served.service.WatchOffers(
            api.WatchOffersRequest(resume_token=token, bookmark_interval_seconds=1, **request)
        )
        self.held: dict[str, int] = {}
        self.token = token
        self.seen: list[str] = []

    async def next(self) -> Message:
        with anyio.fail_after(PATIENCE_SECONDS):
            message = await self.call.read()
        assert isinstance(message, Message)
        kind = message.WhichOneof("event")
        if kind == "snapshot_start":
            self.held.clear()
        elif kind == "offer":
            self.held[message.offer.node] = message.offer.generation
        elif kind == "offer_withdrawn":
            self.held.pop(message.offer_withdrawn.node, None)
        if kind != "bookmark":
            self.seen.append(str(kind))
        self.token = message.resume_token
        return message

    async def until_current(self) -> dict[str, int]:
        """What is held at the next bookmark for all that was published by now."""
        asked_at = datetime.now(UTC)
        while True:
            message = await self.next()
            if message.WhichOneof("event") == "bookmark" and message.bookmark.as_of.ToDatetime(UTC) >= asked_at:
                return dict(self.held)
