"""What no event tells: backlogs, pools, and whether the servers answer."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from prometheus_client import CollectorRegistry
from tests.support.clock import FakeClock

from slackwater.bus.admin.backlogs import Backlogs, Fill, Lag
from slackwater.model.errors import Unavailable
from slackwater.model.limited_resource import FillLevel, Limited
from slackwater.runtime.http import build_app
from slackwater.runtime.limited_readings import LimitedReadings
from slackwater.runtime.loop_watch import POOL_READINGS, LoopWatch
from slackwater.runtime.process_limits import LOOK_SECONDS, descriptors, disk_of, process_limits, watching_process
from slackwater.runtime.settings import HttpSettings
from slackwater.store.engine import Connections
from slackwater.store.port import Backlog
from slackwater.telemetry.metrics import Meters


@dataclass
class Servers:
    """Bus and one database at once."""

    away: bool = False
    outbox: Backlog | None = field(default_factory=lambda: Backlog(3, 1.5, 2))
    streams: dict[str, Fill] = field(default_factory=lambda: {"DLQ": Fill(1, 100, 1000)})
    stores: dict[str, tuple[int, int]] = field(default_factory=dict)
    pool: Connections = field(default_factory=lambda: Connections(1, 2))

    async def backlogs(self) -> Backlogs:
        if self.away:
            raise Unavailable("no broker")
        return Backlogs({"c": Lag(5, 2)}, self.streams, self.stores)

    async def backlog(self) -> Backlog | None:
        if self.away:
            raise Unavailable("no PostgreSQL")
        return self.outbox

    def connections(self) -> Connections:
        return self.pool


async def test_what_is_found_is_shown_and_what_is_away_is_said_to_be() -> None:
    registry, servers = CollectorRegistry(), Servers()
    watch = LoopWatch(servers, lambda: {"ensurance": servers}, FakeClock(), Meters(registry))
    await watch.check()

    def shown(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"slackwater_{name}", labels)

    assert shown("bus_up") == shown("database_up", service="ensurance") == 1
    assert shown("bus_lag_messages", consumer="c") == 5
    assert shown("bus_unsettled_messages", consumer="c") == 2
    assert shown("stream_kept_messages", stream="DLQ") == 1
    assert (shown("stream_stored_bytes", stream="DLQ"), shown("stream_limit_bytes", stream="DLQ")) == (100, 1000)
    assert shown("outbox_waiting_events", service="ensurance") == 3
    assert shown("outbox_age_seconds", service="ensurance") == 1.5
    assert shown("outbox_refused_events", service="ensurance") == 2
    assert shown("database_pool_connections", service="ensurance", state="in_use") == 1
    servers.away = True
    await watch.check()
    assert shown("bus_up") == shown("database_up", service="ensurance") == 0


async def test_a_service_without_an_outbox_has_none_to_show() -> None:
    registry, servers = CollectorRegistry(), Servers(outbox=None)
    await LoopWatch(servers, lambda: {"console": servers}, FakeClock(), Meters(registry)).check()
    assert registry.get_sample_value("slackwater_outbox_waiting_events", {"service": "console"}) is None
    assert registry.get_sample_value("slackwater_database_up", {"service": "console"}) == 1


def watch_of(servers: Servers, registry: CollectorRegistry) -> LoopWatch:
    return LoopWatch(servers, lambda: {"ensurance": servers}, FakeClock(), Meters(registry))


def level_of(watch: LoopWatch, label: str) -> FillLevel | None:
    return next((one.level for one in watch.limited() if one.label == label), None)


async def answer(watch: LoopWatch, path: str = "/readyz") -> tuple[int, list[str]]:
    app = build_app([], watch.checks, HttpSettings())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1:8460") as client:
        found = await client.get(path)
    return found.status_code, found.text.splitlines()


async def test_a_stream_that_must_not_fill_warns_and_takes_no_replica_out() -> None:
    registry = CollectorRegistry()
    servers = Servers(streams={"USAGE": Fill(1, 999, 1000), "DECISIONS": Fill(1, 850, 1000, must_not_fill=True)})
    watch = watch_of(servers, registry)
    await watch.check()
    status, lines = await answer(watch)
    assert (status, lines[-1]) == (200, "readyz check passed")
    assert lines[0].startswith("[!]stream-DECISIONS warning: nearly full: 850.0 of 1000.0 bytes (85 %); raise ")
    assert level_of(watch, "stream-USAGE") is None, "its oldest messages are dropped by age anyway"
    servers.streams["DECISIONS"] = Fill(1, 999, 1000, must_not_fill=True)
    await watch.check()
    status, lines = await answer(watch)
    assert (status, len(lines)) == (200, 2)
    assert lines[0].startswith("[!]stream-DECISIONS warning: full: ")
    labels = {"kind": "stream", "resource": "DECISIONS"}
    assert registry.get_sample_value("slackwater_limited_resource_used_ratio", labels) == 0.999
    assert registry.get_sample_value("slackwater_limited_resources", {**labels, "state": "full"}) == 1
    assert registry.get_sample_value("slackwater_limited_resources", {**labels, "state": "nearly_full"}) == 0
    servers.away = True
    await watch.check()
    assert level_of(watch, "stream-DECISIONS") is None, "unknown while the broker is away"
    assert registry.get_sample_value("slackwater_limited_resource_used_ratio", labels) is None


async def test_a_limited_account_of_the_broker_is_watched() -> None:
    watch = watch_of(Servers(stores={"file": (900, 1000)}), CollectorRegistry())
    await watch.check()
    assert level_of(watch, "store-file") is FillLevel.NEARLY_FULL
    assert (await answer(watch))[0] == 200


async def test_a_pool_is_exhausted_when_requests_wait_at_several_readings_in_a_row() -> None:
    servers = Servers(pool=Connections(6, 0, waiting=3))
    watch = watch_of(servers, CollectorRegistry())
    for _ in range(POOL_READINGS - 1):
        await watch.check()
        assert level_of(watch, "pool-ensurance") is FillLevel.FINE
    await watch.check()
    status, lines = await answer(watch)
    assert (status, lines[-1]) == (503, "readyz check failed")
    assert lines[0].startswith("[-]pool-ensurance failed: full: 9 of 6 sessions in use or waited for")
    servers.pool = Connections(1, 3)
    await watch.check()
    assert level_of(watch, "pool-ensurance") is FillLevel.FINE


async def test_a_process_that_runs_out_of_descriptors_says_so_before(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = descriptors()
    assert before is not None
    assert before.limit == soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (before.used + 100, hard))
    opened: list[int] = []
    try:
        opened += [os.open(tmp_path, os.O_RDONLY) for _ in range(90)]
        watch = watch_of(Servers(), CollectorRegistry())
        await watch.check()
        assert level_of(watch, "descriptors-process") is not FillLevel.FINE
        now = descriptors()
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert now is not None
    assert now.used == before.used + 90


async def test_the_disk_of_a_folder_that_is_not_there_yet_is_that_of_its_parent(tmp_path: Path) -> None:
    there, not_yet = disk_of("state", tmp_path), disk_of("state", tmp_path / "a" / "b")
    assert there is not None
    assert not_yet is not None
    assert (there.kind, there.limit) == (Limited.DISK, not_yet.limit)
    assert 0 < there.used < there.limit
    assert [one.label for one in await process_limits({"state": tmp_path})] == ["descriptors-process", "disk-state"]


async def test_a_disk_that_hangs_stops_no_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """statvfs of a network disk that is away answers late, or never."""
    loop, asked, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def hang(_: object) -> os.statvfs_result:
        loop.call_soon_threadsafe(asked.set)
        go_on.wait()
        raise OSError

    monkeypatch.setattr(os, "statvfs", hang)
    reading = asyncio.create_task(process_limits({"state": tmp_path}))
    await asked.wait()
    go_on.set()
    assert [one.label for one in await reading] == ["descriptors-process"]


async def test_a_process_without_this_watch_shows_its_own_limits(tmp_path: Path) -> None:
    """The agent: it has neither pools nor the rights to ask for streams."""
    readings = LimitedReadings(Meters(CollectorRegistry()))
    async with watching_process(readings, {"state": tmp_path}):
        while len(readings.newest()) < 2:
            await asyncio.sleep(0.01)
    assert {one.label for one in readings.newest()} == {"descriptors-process", "disk-state"}


def test_it_looks_more_often_than_alerts_ask() -> None:
    assert LOOK_SECONDS <= 15
