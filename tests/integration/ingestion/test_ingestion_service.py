"""Every report in one window, exactly once, whatever happens: on real servers where one of them is killed or poisoned,
otherwise on their twins in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.postgres_server import FreshDatabase
from tests.support.reports import described, pod_usage, report
from tests.support.twin_servers import TwinServers

from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.envelope import event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.ingestion.service import IngestionService, build
from slackwater.ingestion.settings import IngestionSettings
from slackwater.model.nodes import Liveness
from slackwater.model.time import Clock, SystemClock
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database

SETTINGS = IngestionSettings(
    window_seconds=5, lateness_seconds=0.2, liveness_tick_seconds=0.1, report_interval_seconds=1
)
NODES = ("n.1", "n.2", "n.3")
REPORTS = 60
NOWHERE = Path("/nowhere")
NEXT_WINDOW_SECONDS = 10
"""From the last report to the one that begins another window, so that none of the counted windows contains it."""


async def eventually(condition: Callable[[], bool]) -> None:
    """Poll until it holds; the test's own timeout is the limit."""
    while not condition():
        await asyncio.sleep(0.01)


@asynccontextmanager
async def ingesting(platform: Platform) -> AsyncIterator[IngestionService]:
    """A running service. Its database is closed at the end."""
    service = build(SETTINGS, platform)
    ready = asyncio.Event()
    task = asyncio.create_task(service.run(ready.set))
    try:
        await asyncio.wait((task, asyncio.create_task(ready.wait())), return_when=asyncio.FIRST_COMPLETED)
        yield service
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await platform.database("ingestion").close()


def on_servers(bus: NatsBus, dsn: str) -> Platform:
    """The platform of a process on real servers."""
    database = connect_database(dsn, "ingestion", SystemClock())
    return Platform(bus, SystemClock(), lambda _: database, NOWHERE)


class Windows:
    """Every window of the stream that starts before the report after the last one."""

    def __init__(self, start: datetime) -> None:
        self.seen: list[UsageWindowed] = []
        self._until = start + timedelta(seconds=REPORTS)

    async def __call__(self, batch: list[Received[UsageWindowed]]) -> list[Settlement]:
        self.seen += [received.event.data for received in batch if received.event.data.window_start <= self._until]
        return [Done()] * len(batch)

    @property
    def reports(self) -> int:
        return sum(window.reports for window in self.seen)

    def assert_complete(self) -> None:
        """Each report once, no window twice, nothing missing."""
        assert self.reports == len(NODES) * REPORTS
        assert len({(window.node, window.number) for window in self.seen}) == len(self.seen)
        assert sum(window.gaps for window in self.seen) == 0
        for window in self.seen:
            assert window.node_usage.samples == 5 * window.reports
            assert window.number == window.window_start.timestamp() // 5
            assert [found.usage.samples for found in window.pods] == [5 * window.reports]
        for node in NODES:
            numbers = [window.number for window in self.seen if window.node == node]
            assert numbers == sorted(numbers)


def ten_minutes_ago(clock: Clock) -> datetime:
    """Asked in the test, not when it is collected: what is older than a quarter of an hour is refused."""
    return clock.now().replace(microsecond=0) - timedelta(minutes=10)


async def publish(bus: NatsBus, start: datetime, first: int, last: int) -> None:
    """Reports number first..last of every node, one a second from `start` on."""
    for sequence in range(first, last + 1):
        await publish_at(bus, sequence, start + timedelta(seconds=sequence))


async def publish_at(bus: NatsBus, sequence: int, at: datetime) -> None:
    for node in NODES:
        data = report(node, sequence, at, window_seconds=1, pods=[pod_usage(f"pod-of-{node}")])
        await bus.publish(event_of(data, source="tests", time=at))


async def begin_next_window(bus: NatsBus, start: datetime) -> None:
    """Publish the report after the last one, so that the last window closes without waiting for silence."""
    await publish_at(bus, REPORTS + 1, start + timedelta(seconds=REPORTS + NEXT_WINDOW_SECONDS))


@pytest.mark.looptime
async def test_every_report_is_in_exactly_one_window_also_across_restarts() -> None:
    servers = TwinServers(["ingestion"])
    start = ten_minutes_ago(servers.clock)
    windows = Windows(start)
    async with servers.bus("test") as bus, bus.replay(UsageWindowed, windows, after_sequence=0):
        async with ingesting(servers.platform(bus, "ingestion")):
            await publish(bus, start, 1, 25)
            await eventually(lambda: len(windows.seen) >= 2)
        await publish(bus, start, 26, 35)
        async with ingesting(servers.platform(bus, "ingestion")):
            await publish(bus, start, 36, 45)
        async with ingesting(servers.platform(bus, "ingestion")) as service:
            await publish(bus, start, 46, REPORTS)  # the last window closes because its node falls silent
            await eventually(lambda: windows.reports >= len(NODES) * REPORTS)
            checks = {check.name: check.ok for check in await service.checks()}
    assert checks == {
        "database": True,
        "ingestion-bus": True,
        "outbox": True,
        "ingestion-shards": True,
        "ingestion-quarantine": True,
    }
    windows.assert_complete()


async def test_without_a_broker_it_is_not_ready(fresh_database: FreshDatabase, tmp_path: Path) -> None:
    dsn = (await fresh_database(["ingestion"]))["ingestion"]
    broker = EmbeddedNats(tmp_path / "nats")
    await broker.start()
    try:
        async with connect_bus(broker.url, name="test") as bus, ingesting(on_servers(bus, dsn)) as service:
            assert all(check.ok for check in await service.checks())
            await broker.kill()
            assert [check.name for check in await service.checks() if not check.ok] == ["ingestion-bus"]
    finally:
        await broker.stop()


async def test_a_killed_postgresql_loses_and_doubles_no_window(bus: NatsBus, tmp_path: Path) -> None:
    start = ten_minutes_ago(SystemClock())
    windows = Windows(start)
    with EmbeddedPostgres(tmp_path / "state") as server:
        dsn = (await prepare_database(server.dsn, [Schema.of("ingestion")]))["ingestion"]
        async with (
            bus.replay(UsageWindowed, windows, after_sequence=0),
            ingesting(on_servers(bus, dsn)) as service,
        ):
            await publish(bus, start, 1, 25)
            await eventually(lambda: len(windows.seen) >= 2)
            server.kill()
            await publish(bus, start, 26, 30)
            assert not (await service.checks())[0].ok
            server.start()
            await publish(bus, start, 31, REPORTS)
            await begin_next_window(bus, start)
            await eventually(lambda: windows.reports >= len(NODES) * REPORTS)
    windows.assert_complete()


async def test_poison_goes_to_the_dead_letters_while_the_good_flow(bus: NatsBus, fresh_database: FreshDatabase) -> None:
    dsn = (await fresh_database(["ingestion"]))["ingestion"]
    changes: list[NodeLivenessChanged] = []

    async def note(event: object) -> None:
        changes.append(event.data)  # type: ignore[attr-defined]  # an Event of the watched type

    now = datetime.now(UTC)
    poisoned = report("n.1", 2, now)
    negative = poisoned.model_copy(update={"window_seconds": -1.0})
    foreign = event_of(report("n.2", 1, now), source="tests", time=now)
    message = encode(event_of(poisoned, source="tests", time=now))
    async with ingesting(on_servers(bus, dsn)), bus.watch(NodeLivenessChanged, note):
        await bus.publish(event_of(described("n.1", now), source="tests", time=now))
        await bus.jetstream.publish(message.subject, b"{not json", headers=dict(message.headers))
        headers = {**message.headers, "Nats-Msg-Id": "another"}
        await bus.jetstream.publish(message.subject, encode(foreign).body, headers=headers)
        await bus.publish(event_of(negative, source="tests", time=now))
        await bus.publish(event_of(report("n.1", 3, now), source="tests", time=now))
        await eventually(lambda: bool(changes))
        while (await bus.jetstream.stream_info("DLQ")).state.messages < 3:
            await asyncio.sleep(0.01)
        reasons = []
        for sequence in (1, 2, 3):
            letter = await bus.jetstream.get_msg("DLQ", sequence)
            assert letter.headers is not None
            reasons.append(letter.headers["sw-reason"])
    assert sorted(reasons[1:]) == ["invalid_payload", "wrong_subject"]
    assert reasons[0] not in ("invalid_payload", "wrong_subject")
    assert (changes[0].node, changes[0].liveness) == ("n.1", Liveness.FRESH)


@pytest.mark.parametrize("seconds", [0, 4000])
def test_a_window_has_a_sensible_length(seconds: int) -> None:
    with pytest.raises(ValueError, match="window_seconds"):
        IngestionSettings(window_seconds=seconds)
