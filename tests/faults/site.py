"""A whole installation for one scenario: servers, services, an eye on their memory, and an administrator's view."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
from nats.errors import Error as NatsError
from tests.faults.memory_limits import BROKER, MemoryLimits
from tests.faults.supervisor import Memory, Program, free_port, service_command, until
from tests.support.agent_access import admit

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.access import NatsAccess
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.cli.broker import registry, write_config
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.runtime.service_list import service_names

SERVICES = service_names()
QUICK = {
    "SLACKWATER_INGESTION_REPORT_INTERVAL_SECONDS": "1",
    "SLACKWATER_INGESTION_WINDOW_SECONDS": "2",
    "SLACKWATER_INGESTION_LATENESS_SECONDS": "1",
    "SLACKWATER_ENSURANCE_LEASE_SECONDS": "6",
    "SLACKWATER_ENSURANCE_COOL_DOWN_SECONDS": "1",
    "SLACKWATER_ENSURANCE_QUOTA_AFTER_SECONDS": "0",
    "SLACKWATER_PREDICTION_CPU_SETTINGS": '{"cold_hours": 1}',
    "SLACKWATER_PREDICTION_MEMORY_SETTINGS": '{"cold_hours": 1}',
    "SLACKWATER_PREDICTION_HISTOGRAM_UPDATE_SECONDS": "1",
    "SLACKWATER_PREDICTION_CHECK_SECONDS": "0.5",
    "SLACKWATER_PREDICTION_REPORTING_SECONDS": "1",
    "SLACKWATER_PREDICTION_SNAPSHOT_SECONDS": "5",
}
"""Everything faster than in life, so that a minute holds many windows, leases and snapshots."""
CALM_SECONDS = 4.0
WORKED_OFF_LOOKS = 5
_READY_SECONDS = 60.0


@dataclass(slots=True)
class Site:
    """`programs` by service name. `dsn` is the administrator's."""

    folder: Path
    broker: EmbeddedNats
    database: EmbeddedPostgres
    programs: dict[str, Program] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    sabotage: str = ""
    credentials: Path | None = None
    """Where the credentials of the broker's users are; None: it asks for none."""
    limits: MemoryLimits | None = None
    """What each process may use; None: no limits."""
    memory: Memory = field(default_factory=Memory)
    http: httpx2.AsyncClient = field(default_factory=lambda: httpx2.AsyncClient(trust_env=False, timeout=3.0))
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "postgres"))
    _eye: asyncpg.Connection[Any] | None = None
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def dsn(self) -> str:
        return self.database.dsn

    def access(self, user: str, **other: Any) -> NatsAccess:
        """The credentials of a service or agent on this broker."""
        if self.credentials is None:
            return NatsAccess(**other)
        return NatsAccess(credentials_file=self.credentials / f"{user}.creds", **other)

    async def start_database(self) -> None:
        """In a thread that lives as long as the site: the kernel ties the server to the thread that started it."""
        await asyncio.get_running_loop().run_in_executor(self.thread, self.database.start)

    async def kill_database(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self.thread, self.database.kill)

    async def rows(self, sql: str, *values: object) -> list[asyncpg.Record]:
        """One query as administrator, through whatever connection works. Raises OSError or asyncpg's errors."""
        async with self._asking:
            if self._eye is None or self._eye.is_closed():
                self._eye = await asyncpg.connect(self.dsn, timeout=2, command_timeout=30)
            try:
                return await self._eye.fetch(sql, *values)
            except (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError, TimeoutError):
                self._eye.terminate()
                self._eye = None
                raise

    async def value(self, sql: str, *values: object) -> Any:
        """The first column of the first row, None when the database is away or has no row."""
        try:
            found = await self.rows(sql, *values)
        except (OSError, asyncpg.InterfaceError, asyncpg.PostgresError, TimeoutError):
            return None
        return found[0][0] if found else None

    def url(self, service: str, path: str) -> str:
        return f"http://127.0.0.1:{self.ports[service]}{path}"

    async def ready(self, service: str) -> bool:
        try:
            return (await self.http.get(self.url(service, "/readyz"))).status_code == 200
        except httpx2.HTTPError:
            return False

    async def start_service(self, name: str, environment: Mapping[str, str], nats: str | None = None) -> None:
        """As its own process. `ensurance-2` is a second replica of ensurance."""
        port = self.ports.setdefault(name, free_port())
        command = service_command(name.split("-")[0], self.dsn, nats or self.broker.url, port)
        if self.sabotage:
            command[1:3] = ["-m", "tests.faults.sabotage", self.sabotage]
        if self.limits is not None:
            command = self.limits.around(name.split("-")[0], command)
        state = {"SLACKWATER_STATE_DIR": str(self.folder / f"state-{name}")}
        login = self._login(name.split("-")[0])
        self.programs[name] = program = Program(name, command, self.folder, {**QUICK, **state, **login, **environment})
        await program.start()

    def _login(self, user: str) -> dict[str, str]:
        if self.credentials is None:
            return {}
        login = {"SLACKWATER_NATS_CREDENTIALS_FILE": str(self.credentials / f"{user}.creds")}
        if user == "ingestion":  # issues access, and holds agents that flood
            login["SLACKWATER_NATS_AUTHORITY_FILE"] = str(self.credentials.parent / "access.seed")
        return login

    async def await_ready(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                await until(partial(self.ready, name), _READY_SECONDS, f"{name} is ready", 0.1)
            except TimeoutError as error:
                raise TimeoutError(f"{error}; its log ends:\n{self.programs[name].log_tail()}") from None

    async def settled(self, bus: NatsBus, seconds: float = 90.0) -> float:
        """Wait until every outbox is empty, every consumer has settled everything, and nothing new has come of it for
        CALM_SECONDS (what is replayed, and windows that close by the clock, shows in no count)."""
        calm_since = time.monotonic()
        before: Mapping[str, Any] = {}

        async def quiet() -> bool:
            nonlocal calm_since, before
            now = await stored(bus)
            if now != before or await self.backlog() or await pending(bus, self.services):
                calm_since, before = time.monotonic(), now
            return time.monotonic() - calm_since >= CALM_SECONDS

        try:
            return await until(quiet, seconds, "everything is handled", 0.2)
        except TimeoutError as error:
            left = {**await self.backlog(), **await pending(bus, self.services)}
            raise TimeoutError(f"{error}: {left}") from None

    async def worked_off(self, bus: NatsBus, seconds: float = 90.0) -> float:
        """The same where others go on talking: until nothing has been found waiting for several looks in all."""
        empty = 0

        async def looks() -> bool:
            nonlocal empty
            empty += not (await self.backlog() or await pending(bus, self.services))
            return empty >= WORKED_OFF_LOOKS

        return await until(looks, seconds, "what waited has been handled", 0.3)

    @property
    def services(self) -> dict[str, Program]:
        """By the name of the service; of several replicas the first."""
        return {name.split("-")[0]: one for name, one in self.programs.items() if name.split("-")[0] in SERVICES}

    async def backlog(self) -> dict[str, int]:
        """Committed and not yet published, by service."""
        found = {}
        for service in self.services:
            depth = await self.value(f"SELECT count(*) FROM {service}.outbox WHERE refused IS NULL")  # noqa: S608
            if depth or depth is None:
                found[f"outbox of {service}"] = -1 if depth is None else depth
        return found

    async def watch_memory(self) -> None:
        while True:
            for name, program in self.programs.items():
                self.memory.look(name, program.pid)
            self.memory.look(BROKER, self.broker.pid)
            await asyncio.sleep(0.25)

    async def close(self) -> None:
        await self.http.aclose()
        if self._eye is not None:
            self._eye.terminate()


async def stored(bus: NatsBus) -> dict[str, int]:
    """The last position of each stream of facts. Intents are left out: leases are renewed for ever."""
    names = ("AGENTS", "DECISIONS", "WINDOWS", "STATE")
    return {name: (await bus.jetstream.stream_info(name)).state.last_seq for name in names}


async def pending(bus: NatsBus, services: Mapping[str, object]) -> dict[str, int]:
    """Messages that durable consumers of these services have not settled, as the broker knows them (a consumer may
    be one of several partitions)."""
    found = {}
    for stream in load().streams:
        try:
            known = await bus.jetstream.consumers_info(stream)
        except (NatsError, TimeoutError):
            return {f"consumers of {stream}": -1}
        for info in known:
            left = (info.num_pending or 0) + (info.num_ack_pending or 0)
            if info.config.durable_name and info.name.split("-")[0] in services and left:
                found[info.name] = left
    return found


@asynccontextmanager
async def site(
    folder: Path,
    services: Sequence[str] = SERVICES,
    *,
    broker_folder: Path | None = None,
    database_folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    sabotage: str = "",
    agents: Sequence[str] = (),
    limits: MemoryLimits | None = None,
    broker: EmbeddedNats | None = None,
) -> AsyncIterator[Site]:
    """Everything up and ready; everything gone at the end, whatever happened in between.

    `agents`: nodes of which each gets an account on the broker, as `slackwater nats-config` makes it; none: the broker
    asks for no credentials. `limits`: memory cgroups that the services and the broker run in. `broker`: one of
    a cluster.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if agents:
        write_config(folder / "access", agents, "127.0.0.1", 4222, None)
    accounts = folder / "access" / "access.conf" if agents else None
    broker = broker or EmbeddedNats(broker_folder or folder / "nats", include=accounts)
    database = EmbeddedPostgres(database_folder or folder / "database")
    credentials = folder / "access" / "credentials" if agents else None
    here = Site(folder, broker, database, sabotage=sabotage, credentials=credentials, limits=limits)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(here.close)
        stack.callback(here.thread.shutdown)
        stack.push_async_callback(_stop_database, here)
        await here.start_database()
        stack.push_async_callback(broker.stop)
        await broker.start()
        if agents:
            await admit(broker.url, NatsAccess(), folder / "access", registry()[1], agents)
        if limits is not None and broker.pid is not None:
            limits.admit(BROKER, broker.pid)
        eye = asyncio.create_task(here.watch_memory())
        stack.callback(eye.cancel)
        stack.push_async_callback(_stop_programs, here)
        for name in services:
            await here.start_service(name, environment or {})
        await here.await_ready(services)
        yield here


@asynccontextmanager
async def harness_bus(
    url: str, name: str = "harness", access: NatsAccess | None = None, patience_seconds: float = 20.0
) -> AsyncIterator[NatsBus]:
    """Our own view of the broker; patient, because the broker may be on its way back."""
    deadline = time.monotonic() + patience_seconds
    while True:
        async with AsyncExitStack() as stack:
            try:
                connecting = connect_bus(url, name=name, declares=False, access=access, wait_seconds=2)
                bus = await stack.enter_async_context(connecting)
            except Exception:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)
                continue
            yield bus
            return


async def _stop_programs(here: Site) -> None:
    await asyncio.gather(*(program.stop() for program in here.programs.values()))


async def _stop_database(here: Site) -> None:
    with suppress(Exception):
        await asyncio.get_running_loop().run_in_executor(here.thread, here.database.stop)
