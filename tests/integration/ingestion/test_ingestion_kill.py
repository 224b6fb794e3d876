"""SIGKILL to a whole ingestion process in the middle of its work."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.postgres_server import FreshDatabase
from tests.support.reports import report

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.envelope import event_of
from slackwater.events.usage_windowed import UsageWindowed

REPORTS = 20
"""Fewer than the stream keeps of one node: what it drops by design would be missing here by right."""
NEXT_WINDOW_SECONDS = 10
"""From the last report to the one that begins another window, so that none of the counted windows contains it."""

_PROCESS = """
import asyncio, sys
from pathlib import Path
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.ingestion.service import build
from slackwater.ingestion.settings import IngestionSettings
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database

async def main(nats_url, dsn):
    settings = IngestionSettings(window_seconds=5, lateness_seconds=0.2, report_interval_seconds=1, batch=5)
    database = connect_database(dsn, "ingestion", SystemClock())
    async with connect_bus(nats_url, name="killed", declares=False) as bus:
        service = build(settings, Platform(bus, SystemClock(), lambda _: database, Path("/nowhere")))
        await service.run(lambda: print("started", flush=True))

asyncio.run(main(*sys.argv[1:]))
"""


async def _start(nats_url: str, dsn: str) -> asyncio.subprocess.Process:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROCESS, nats_url, dsn, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"started\n"
    return process


@pytest.mark.parametrize("reports_before_the_kill", [1, 11])
async def test_a_killed_ingestion_loses_no_report_and_closes_no_window_twice(
    bus: NatsBus, nats_url: str, fresh_database: FreshDatabase, reports_before_the_kill: int
) -> None:
    dsn = (await fresh_database(["ingestion"]))["ingestion"]
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)
    seen: list[UsageWindowed] = []
    last_at = start + timedelta(seconds=REPORTS)
    complete = asyncio.Event()

    async def note(batch: list[Received[UsageWindowed]]) -> list[Settlement]:
        seen.extend(received.event.data for received in batch if received.event.data.window_start <= last_at)
        if sum(window.reports for window in seen) >= REPORTS:
            complete.set()
        return [Done()] * len(batch)

    async with bus.replay(UsageWindowed, note, after_sequence=0):
        process = await _start(nats_url, dsn)
        for sequence in range(1, REPORTS + 1):
            at = start + timedelta(seconds=sequence)
            await bus.publish(event_of(report("n", sequence, at, window_seconds=1), source="tests", time=at))
            if sequence == reports_before_the_kill:
                process.kill()
                await process.wait()
                process = await _start(nats_url, dsn)
        at = last_at + timedelta(seconds=NEXT_WINDOW_SECONDS)  # closes the last window; silence is waited for elsewhere
        await bus.publish(event_of(report("n", REPORTS + 1, at, window_seconds=1), source="tests", time=at))
        await complete.wait()
        process.terminate()
        await process.wait()
    assert sum(window.reports for window in seen) == REPORTS
    assert [window.number for window in seen] == sorted({window.number for window in seen})
    assert sum(window.node_usage.samples for window in seen) == 5 * REPORTS
    assert sum(window.gaps for window in seen) == 0
