"""Two replicas of ingestion on real servers: they share, one dies or stands still, nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg

from slackwater.bus.nats import NatsBus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.envelope import event_of
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.identifiers import PARTITIONS, partition_of
from slackwater.store.names import partition_of_sql
from slackwater.testing.postgres_server import FreshDatabase
from slackwater.testing.reports import report

NODES = [f"node-{number}" for number in range(24)]
REPORTS = 20
TTL_SECONDS = 5.0

# Silence is 12 s there: longer than a redelivery takes.
_PROCESS = """
import asyncio, sys
from pathlib import Path
from slackwater.bus.nats import connect_bus
from slackwater.ingestion.service import build
from slackwater.ingestion.settings import IngestionSettings
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database
from slackwater.telemetry.logs import configure

async def main(nats_url, dsn):
    configure("ingestion", level="info")
    settings = IngestionSettings(window_seconds=5, lateness_seconds=0.2, report_interval_seconds=4, batch=50)
    database = connect_database(dsn, "ingestion", SystemClock())
    async with connect_bus(nats_url, name="replica", declares=False) as bus:
        service = build(settings, Platform(bus, SystemClock(), lambda _: database, Path("/nowhere")))
        await service.run(lambda: print("started", flush=True))

asyncio.run(main(*sys.argv[1:]))
"""


class Windows:
    """Everything that the stream of windows holds."""

    def __init__(self) -> None:
        self.seen: list[UsageWindowed] = []

    async def __call__(self, batch: list[Received[UsageWindowed]]) -> list[Settlement]:
        self.seen += [received.event.data for received in batch]
        return [Done()] * len(batch)

    @property
    def reports(self) -> int:
        return sum(window.reports for window in self.seen)

    def assert_complete(self) -> None:
        """Each report once, no window twice."""
        assert len({(window.node, window.number) for window in self.seen}) == len(self.seen)
        assert self.reports == len(NODES) * REPORTS


class Scene:
    """Replicas as processes over one broker and one database."""

    def __init__(self, bus: NatsBus, nats_url: str, dsn: str, store: asyncpg.Connection[asyncpg.Record]) -> None:
        self.bus = bus
        self.store = store
        self._command = [sys.executable, "-c", _PROCESS, nats_url, dsn]
        self.processes: list[asyncio.subprocess.Process] = []
        self.start = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)

    async def replica(self) -> asyncio.subprocess.Process:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        process = await asyncio.create_subprocess_exec(*self._command, stdout=asyncio.subprocess.PIPE, env=environment)
        self.processes.append(process)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"started\n"
        return process

    async def publish(self, first: int, last: int) -> None:
        for sequence in range(first, last + 1):
            at = self.start + timedelta(seconds=sequence)
            for node in NODES:
                await self.bus.publish(event_of(report(node, sequence, at, window_seconds=1), source="tests", time=at))

    async def owners(self) -> dict[int, str | None]:
        return {row[0]: row[1] for row in await self.store.fetch("SELECT partition, owner FROM leases")}

    async def shares(self) -> list[int]:
        """How many partitions each owner has."""
        owners = list((await self.owners()).values())
        return sorted(owners.count(owner) for owner in set(owners) if owner is not None)

    async def received(self) -> int:
        return int(await self.store.fetchval("SELECT count(*) FROM node_usage"))


@asynccontextmanager
async def scene(bus: NatsBus, nats_url: str, fresh_database: FreshDatabase) -> AsyncIterator[tuple[Scene, Windows]]:
    dsn = (await fresh_database(["ingestion"]))["ingestion"]
    store = await asyncpg.connect(dsn, server_settings={"search_path": "ingestion"})
    found, windows = Scene(bus, nats_url, dsn, store), Windows()
    try:
        async with bus.replay(UsageWindowed, windows, after_sequence=0):
            yield found, windows
    finally:
        for process in found.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await store.close()


async def until(condition: Callable[[], Awaitable[bool]]) -> float:
    """Poll until it holds (the test's own timeout is the limit); seconds waited."""
    begun = time.monotonic()
    while not await condition():
        await asyncio.sleep(0.05)
    return time.monotonic() - begun


async def test_two_replicas_share_and_a_killed_one_is_followed(
    bus: NatsBus, nats_url: str, fresh_database: FreshDatabase
) -> None:
    async with scene(bus, nats_url, fresh_database) as (world, windows):
        first = await world.replica()
        assert await world.shares() == [PARTITIONS]  # alone, it owns everything from the start
        await world.publish(1, 5)
        await world.replica()

        async def shared() -> bool:
            return await world.shares() == [4, 4]

        await until(shared)
        await world.publish(6, 10)
        first.kill()
        await world.publish(11, 12)

        async def taken_over() -> bool:
            return await world.shares() == [PARTITIONS]

        await until(taken_over)
        await world.publish(13, REPORTS)

        async def complete() -> bool:
            return windows.reports >= len(NODES) * REPORTS

        await until(complete)
        windows.assert_complete()
        assert sum(window.gaps for window in windows.seen) == 0


async def test_a_replica_that_stood_still_past_its_lease_writes_nothing_more(
    bus: NatsBus, nats_url: str, fresh_database: FreshDatabase
) -> None:
    async with scene(bus, nats_url, fresh_database) as (world, windows):
        sleeper = await world.replica()
        await world.publish(1, 10)
        os.kill(sleeper.pid, signal.SIGSTOP)  # wherever it is in its work
        await world.replica()

        async def taken_over() -> bool:
            owners = set((await world.owners()).values())
            return (
                len(owners) == 1
                and sleeper.pid is not None
                and not any(f"-{sleeper.pid}-" in (owner or "") for owner in owners)
            )

        await until(taken_over)
        epochs = dict(await world.store.fetch("SELECT partition, epoch FROM leases"))
        await world.publish(11, 12)
        os.kill(sleeper.pid, signal.SIGCONT)

        async def shared() -> bool:
            return await world.shares() == [4, 4]

        await until(shared)  # it is a member again, under new epochs
        await world.publish(13, REPORTS)

        async def complete() -> bool:
            return windows.reports >= len(NODES) * REPORTS

        await until(complete)
        windows.assert_complete()
        assert sum(window.gaps for window in windows.seen) == 0  # what the sleeper had in hand came later, but came
        later = dict(await world.store.fetch("SELECT partition, epoch FROM leases"))
        assert all(later[partition] >= epoch for partition, epoch in epochs.items())
        assert await world.received() == len(NODES) * REPORTS


async def test_the_database_computes_the_same_partition(fresh_database: FreshDatabase) -> None:
    dsn = (await fresh_database(["ingestion"]))["ingestion"]
    store = await asyncpg.connect(dsn)
    try:
        keys = [*NODES, "", "n.1", "Knoten-ä", "節点", "x" * 300, "a/b", "'\\"]
        statement = (
            f"SELECT {partition_of_sql('key')}::int FROM unnest($1::text[]) WITH ORDINALITY AS k(key, n) ORDER BY n"  # noqa: S608 - ours
        )
        found = [row[0] for row in await store.fetch(statement, keys)]
    finally:
        await store.close()
    assert found == [partition_of(key) for key in keys]
