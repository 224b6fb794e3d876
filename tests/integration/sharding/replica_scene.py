"""Replicas of one service as processes over one broker and one database: started, killed, asked what they own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import asyncpg
from nats.errors import Error as NatsError
from tests.support.postgres_server import FreshDatabase

from slackwater.bus.admin.streams import durable_names, load
from slackwater.bus.connect.nats_bus import NatsBus

_PROCESS = """
import asyncio, importlib, sys
from pathlib import Path
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database
from slackwater.telemetry.logs import configure

async def main(name, nats_url, dsn):
    configure(name, level="info")
    settings = getattr(importlib.import_module(f"slackwater.{name}.settings"), f"{name.capitalize()}Settings")()
    database = connect_database(dsn, name, SystemClock())
    async with connect_bus(nats_url, name="replica", declares=False) as bus:
        platform = Platform(bus, SystemClock(), lambda _: database, Path("/nowhere"))
        service = importlib.import_module(f"slackwater.{name}.service").build(settings, platform)
        running = asyncio.create_task(service.run(lambda: print("started", flush=True)))
        asyncio.get_running_loop().add_signal_handler(15, running.cancel)
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()

asyncio.run(main(*sys.argv[1:]))
"""


class Replicas:
    """Of one service. `store` is our own session in its schema."""

    def __init__(
        self,
        service: str,
        bus: NatsBus,
        nats_url: str,
        dsn: str,
        settings: Mapping[str, str],
        store: asyncpg.Connection[asyncpg.Record],
    ) -> None:
        self.service = service
        self.bus = bus
        self.store = store
        self._command = [sys.executable, "-c", _PROCESS, service, nats_url, dsn]
        path = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        names = {f"SLACKWATER_{service.upper()}_{name}": value for name, value in settings.items()}
        self._environment = os.environ | path | names
        self.processes: list[asyncio.subprocess.Process] = []

    async def start(self) -> asyncio.subprocess.Process:
        """One more, that owns its first share or waits for one."""
        process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, env=self._environment
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"started\n"
        return process

    async def end(self) -> None:
        """SIGKILL to every process that still runs."""
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def owners(self) -> dict[int, str | None]:
        return {row[0]: row[1] for row in await self.store.fetch("SELECT partition, owner FROM leases")}

    async def epochs(self) -> dict[int, int]:
        return dict(await self.store.fetch("SELECT partition, epoch FROM leases"))

    async def shares(self) -> list[int]:
        """How many partitions each owner has."""
        owners = list((await self.owners()).values())
        return sorted(owners.count(owner) for owner in set(owners) if owner is not None)

    async def has_shares(self, *wanted: int) -> None:
        """Wait for them."""

        async def shared() -> bool:
            return await self.shares() == list(wanted)

        await until(shared)

    async def settled(self) -> None:
        """Wait until its consumers have nothing left, and all that it decided is published."""

        async def nothing_left() -> bool:
            return await self._unsettled() == 0 and not await self.store.fetchval("SELECT count(*) FROM outbox")

        await until(nothing_left)

    async def _unsettled(self) -> int:
        topology = load()
        own = {
            durable: topology.stream_of(name)
            for name, spec in topology.consumers.items()
            if name.startswith(f"{self.service}-")
            for durable in durable_names(name, spec)
        }
        left = 0
        for stream in sorted(set(own.values())):
            try:
                infos = await self.bus.jetstream.consumers_info(stream)
            except (NatsError, TimeoutError):
                return -1
            left += sum((one.num_pending or 0) + (one.num_ack_pending or 0) for one in infos if one.name in own)
        return left


@asynccontextmanager
async def replicas(
    service: str, bus: NatsBus, nats_url: str, fresh_database: FreshDatabase, settings: Mapping[str, str]
) -> AsyncIterator[Replicas]:
    """None yet; all that are started are gone at the end."""
    dsn = (await fresh_database([service]))[service]
    store = await asyncpg.connect(dsn, server_settings={"search_path": service})
    found = Replicas(service, bus, nats_url, dsn, settings, store)
    try:
        yield found
    finally:
        await found.end()
        await store.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Poll until it holds (the test's own timeout is the limit)."""
    while not await condition():
        await asyncio.sleep(0.05)
