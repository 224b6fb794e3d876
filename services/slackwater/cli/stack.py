"""The whole product in one process: embedded servers, schemas, streams, services, HTTP; stopped in reverse order."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from fastapi import APIRouter

from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.cli.composition import PARTS, ServicePart
from slackwater.cli.fresh_start import remove_history, remove_of_another_user
from slackwater.cli.service_host import Databases, hosting, shielded
from slackwater.cli.steps import Steps
from slackwater.model.errors import Unavailable
from slackwater.model.time import SystemClock
from slackwater.runtime.broker_watch import BrokerWatch
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.runtime.health_reports import HealthReports
from slackwater.runtime.http import HttpServer
from slackwater.runtime.loop_watch import LoopWatch
from slackwater.runtime.platform import Platform, new_member
from slackwater.runtime.service import Check, Service
from slackwater.runtime.settings import HttpSettings
from slackwater.runtime.state import Endpoint, StateDir
from slackwater.runtime.version import version
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters

log = get_logger(__name__)
WATCH_SECONDS = 1.0
ROOM_BYTES = 32 * 2**20
"""Free bytes below which the servers cannot start: a WAL segment of PostgreSQL alone takes half of it."""


@dataclass(frozen=True, slots=True)
class StackOptions:
    """The options of the command line. `overrides` are settings by service name; `fresh` removes all that earlier
    runs left in the state directory."""

    http: HttpSettings
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parts: Sequence[ServicePart] = PARTS
    fresh: bool = False


class EmbeddedServers:
    """Embedded PostgreSQL and NATS, started in parallel, and restarted if one of them dies."""

    name = "servers"

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self.postgres = EmbeddedPostgres(state_dir)
        self.nats = EmbeddedNats(state_dir / "nats")
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Start both servers and wait for them. Call it in the main thread, because the kernel ends the servers with
        the thread that forked them.
        """
        nats = asyncio.create_task(self.nats.start())
        await asyncio.sleep(0)  # fork the broker now, so that it starts while this task waits for PostgreSQL
        try:
            self.postgres.start()
        finally:
            await nats

    async def restart_broker(self) -> None:
        """Restart a broker that is alive but no longer stores messages. Acknowledged messages are on its disk."""
        async with self._one_at_a_time:
            await self.nats.stop()
            await self.nats.start()

    def has_room(self) -> bool:
        """Whether the disk of the state directory can hold what a starting broker writes."""
        return shutil.disk_usage(self._state_dir).free >= ROOM_BYTES

    async def stop(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.nats.stop)
            group.start_soon(anyio.to_thread.run_sync, self.postgres.stop)

    async def run(self, started: Callable[[], None]) -> None:
        """Restart servers that die. The first start happens elsewhere, because services are built from the servers'
        addresses.
        """
        started()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            async with self._one_at_a_time:
                if not self.postgres.running or self.nats.pid is None:
                    await self._start_again()

    async def _start_again(self) -> None:
        log.error("embedded server restarts")
        try:
            await self.start()
        except (Unavailable, OSError) as error:  # most often a full disk, which may be temporary
            log.error("embedded server does not start", reason=str(error))
            await asyncio.sleep(WATCH_SECONDS)

    async def checks(self) -> Sequence[Check]:
        return [Check("postgres-process", self.postgres.running), Check("nats-process", self.nats.pid is not None)]

    def routers(self) -> Sequence[APIRouter]:
        return ()


@asynccontextmanager
async def running_stack(state: StateDir, options: StackOptions, steps: Steps) -> AsyncIterator[Endpoint]:
    """Run everything while the context is open; the state directory announces the endpoint.

    Raises: Misconfigured when another instance runs there, or a service cannot be built.
    """
    async with AsyncExitStack() as stack:
        if options.fresh:
            remove_of_another_user(state)
        stack.enter_context(state.hold())
        if options.fresh:
            remove_history(state.path, steps.write_line)
        http = HttpServer(options.http)
        stack.callback(http.close)
        servers = EmbeddedServers(state.path)
        stack.push_async_callback(shielded, servers.stop)
        with steps.step("PostgreSQL and NATS"):
            await servers.start()
        parts = options.parts
        with steps.step("schemas"):
            # The server has no TLS, and asyncpg leaves an exception behind where asking for it meets a timeout.
            addresses = await prepare_database(
                f"{servers.postgres.dsn}?sslmode=disable", [Schema.of(part.name) for part in parts if part.has_schema]
            )
        with steps.step("streams"):
            bus = await stack.enter_async_context(connect_bus(servers.nats.url, name="slackwater"))
        databases = Databases(addresses)
        stack.push_async_callback(shielded, databases.close)
        platform = Platform(bus, SystemClock(), databases.of, state.path, new_member(state.instance_id()))
        with steps.step("services built"):
            services = [part.build(platform, options.overrides.get(part.name)) for part in parts]
        watch = LoopWatch(bus, databases.opened, platform.clock, process_meters(), {"state": state.path})
        health = HealthReports(bus, platform.clock, databases.outbox, watch.limited)
        beside: list[Service] = [
            servers,
            watch,
            BrokerWatch(bus, restart=servers.restart_broker, has_room=servers.has_room),
        ]
        hosted = await stack.enter_async_context(
            hosting(http, options.http, services, steps, beside=beside, health=health)
        )
        token = options.http.token.get_secret_value() if options.http.token else None
        endpoint = Endpoint(http.url, servers.nats.url, os.getpid(), token, version(), hosted.rpc_address)
        state.announce(endpoint)
        yield endpoint
