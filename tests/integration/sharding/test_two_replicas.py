"""Two replicas of ingestion on real servers: they share, one dies or stands still, nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
from replica_scene import Replicas, replicas, until
from tests.support.postgres_server import FreshDatabase
from tests.support.reports import report

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.envelope import event_of
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.identifiers import PARTITIONS, partition_of
from slackwater.store.names import partition_of_sql

NODES = [f"node-{number}" for number in range(24)]
REPORTS = 20
SETTINGS = {"WINDOW_SECONDS": "5", "LATENESS_SECONDS": "0.2", "REPORT_INTERVAL_SECONDS": "4", "BATCH": "50"}
"""Silence is 12 s: longer than a redelivery takes. No test waits for it, see Fleet.begin_next_window."""
NEXT_WINDOW_SECONDS = 10
"""From the last report to the one that begins another window, so that none of the counted windows contains it."""


class Windows:
    """Every window of the stream that starts up to a time."""

    def __init__(self, until: datetime) -> None:
        self.seen: list[UsageWindowed] = []
        self._until = until

    async def __call__(self, batch: list[Received[UsageWindowed]]) -> list[Settlement]:
        self.seen += [received.event.data for received in batch if received.event.data.window_start <= self._until]
        return [Done()] * len(batch)

    async def complete(self) -> None:
        """Wait until every report is in a window; then none was twice, and none was believed missing."""

        async def all_in() -> bool:
            return sum(window.reports for window in self.seen) >= len(NODES) * REPORTS

        await until(all_in)
        assert len({(window.node, window.number) for window in self.seen}) == len(self.seen)
        assert sum(window.reports for window in self.seen) == len(NODES) * REPORTS
        assert sum(window.gaps for window in self.seen) == 0


class Fleet:
    """Reports a second apart, some minutes ago."""

    def __init__(self, bus: NatsBus) -> None:
        self._bus = bus
        self._start = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)
        self.last_at = self._start + timedelta(seconds=REPORTS)

    async def report(self, first: int, last: int) -> None:
        for sequence in range(first, last + 1):
            await self._publish(sequence, self._start + timedelta(seconds=sequence))

    async def begin_next_window(self) -> None:
        """Publish the report after the last one, so that the last window closes without waiting for silence."""
        await self._publish(REPORTS + 1, self.last_at + timedelta(seconds=NEXT_WINDOW_SECONDS))

    async def _publish(self, sequence: int, at: datetime) -> None:
        for node in NODES:
            await self._bus.publish(event_of(report(node, sequence, at, window_seconds=1), source="tests", time=at))


@asynccontextmanager
async def scene(
    bus: NatsBus, nats_url: str, fresh_database: FreshDatabase
) -> AsyncIterator[tuple[Replicas, Fleet, Windows]]:
    fleet = Fleet(bus)
    windows = Windows(fleet.last_at)
    async with (
        replicas("ingestion", bus, nats_url, fresh_database, SETTINGS) as world,
        bus.replay(UsageWindowed, windows, after_sequence=0),
    ):
        yield world, fleet, windows


async def test_two_replicas_share_and_a_killed_one_is_followed(
    bus: NatsBus, nats_url: str, fresh_database: FreshDatabase
) -> None:
    async with scene(bus, nats_url, fresh_database) as (world, fleet, windows):
        first = await world.start()
        assert await world.shares() == [PARTITIONS]  # alone, it owns everything from the start
        await fleet.report(1, 5)
        await world.start()
        await world.has_shares(4, 4)
        await fleet.report(6, 10)
        first.kill()
        await fleet.report(11, 12)
        await world.has_shares(PARTITIONS)
        await fleet.report(13, REPORTS)
        await fleet.begin_next_window()
        await windows.complete()


async def test_a_replica_that_stood_still_past_its_lease_writes_nothing_more(
    bus: NatsBus, nats_url: str, fresh_database: FreshDatabase
) -> None:
    async with scene(bus, nats_url, fresh_database) as (world, fleet, windows):
        sleeper = await world.start()
        await fleet.report(1, 10)
        os.kill(sleeper.pid, signal.SIGSTOP)  # wherever it is in its work
        await world.start()

        async def taken_over() -> bool:
            owners = [owner or "" for owner in (await world.owners()).values()]
            return len(set(owners)) == 1 and f"-{sleeper.pid}-" not in owners[0]

        await until(taken_over)
        epochs = await world.epochs()
        await fleet.report(11, 12)
        os.kill(sleeper.pid, signal.SIGCONT)
        await world.has_shares(4, 4)  # it is a member again, under new epochs
        await fleet.report(13, REPORTS)
        await fleet.begin_next_window()
        await windows.complete()  # what the sleeper had in hand came later, but came
        later = await world.epochs()
        assert all(later[partition] >= epoch for partition, epoch in epochs.items())
        kept = "SELECT count(*) FROM node_usage WHERE sampled_at <= $1"
        assert await world.store.fetchval(kept, fleet.last_at) == len(NODES) * REPORTS
        assert await world.store.fetchval("SELECT sum(gaps) FROM nodes") == 0


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
