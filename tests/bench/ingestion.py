"""Throughput of ingestion in reports per second, with the broker and PostgreSQL on the same machine, without loss.

A fleet of nodes with 30 pods reports every 5 s; after a warm-up the rate is held for a minute. The load is sustained if
the rate of rows in history equals the rate of reports and the backlog is gone shortly after the end. A report is lost
if the stream confirmed it and history does not contain it.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import asyncpg
from tests.bench.control_plane import ControlPlane, control_plane, load
from tests.bench.load import fleet
from tests.bench.verdict import Target

from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.events.envelope import event_of
from slackwater.model.time import SystemClock

TARGET_RATE, TARGET_CORES = 2000.0, 1.0
_WARM_SECONDS = 8.0
_DRAIN_SECONDS = 30.0
_KNOWN = "SELECT count(*) FROM ingestion.nodes WHERE facts IS NOT NULL"
_ONCE = "SELECT right(node, 5)::int AS node, sequence FROM ingestion.node_usage GROUP BY 1, 2 HAVING count(*) = 1"


def measure(
    directory: Path, *, rate: float = TARGET_RATE, seconds: float = 60.0, interval: float = 5.0
) -> dict[str, Any]:
    """Measures the figure at an offered `rate`, scaled by the speed of the machine; see the module docstring."""
    return asyncio.run(_measure(directory, rate, seconds, interval))


async def _measure(directory: Path, rate: float, seconds: float, interval: float) -> dict[str, Any]:
    nodes = round(rate * interval)
    async with control_plane(directory, ["ingestion"]) as plane:
        await describe(plane, nodes)
        ledger_file = directory / "ledger.json"
        options = ("--nodes", str(nodes), "--interval", str(interval), "--seconds", str(seconds + _WARM_SECONDS))
        async with load(plane, ledger_file, *options) as generator:
            await asyncio.sleep(_WARM_SECONDS)
            before, began, kept_before = plane.read(), time.monotonic(), await kept(plane)
            await asyncio.sleep(seconds - 1)  # the load is still on at both readings
            after, ended, kept_after = plane.read(), time.monotonic(), await kept(plane)
            await generator.wait()
        ledger = json.loads(ledger_file.read_text())
        drained = await _drained(plane, ledger["acked"])
        lost = await _lost(plane, ledger, nodes)
    span = ended - began
    cores = {name: round((after[name].cpu_seconds - before[name].cpu_seconds) / span, 3) for name in before}
    stored = (kept_after - kept_before) / span
    return {
        "nodes": nodes,
        "pods": 30,
        "body_bytes": ledger["body_bytes"],
        "seconds": round(span, 1),
        "reports_per_second": {"published": round(ledger["published"] / ledger["seconds"]), "stored": round(stored)},
        "cores": cores,
        "microseconds_per_report": {name: round(1e6 * used / stored) for name, used in cores.items()},
        "memory_mb": {name: round(reading.memory_mb) for name, reading in after.items()},
        "confirmed": ledger["acked"],
        "lost": lost,
        "drained_after_seconds": drained,
        "generator_worst_lag_seconds": round(ledger["worst_lag_seconds"], 3),
        "offered_per_second": round(rate),
        "targets": (
            Target(f"of {TARGET_RATE:,.0f} reports/s stored", round(stored / rate, 3), 0.99, at_least=True),
            Target("ingestion", cores["ingestion"], TARGET_CORES, "core"),
            Target("lost", lost, 0),
        ),
    }


async def describe(plane: ControlPlane, nodes: int, known: str = _KNOWN) -> None:
    """Publish the descriptions of all nodes, as agents do at start, and wait until `known` counts them all."""
    clock = SystemClock()
    async with connect_bus(plane.nats_url, name="bench-described", declares=False) as bus:
        for first in range(0, nodes, 200):
            events = (fleet.described(number, clock.now()) for number in range(first, min(first + 200, nodes)))
            await asyncio.gather(*(bus.publish(event_of(one, source="bench", time=clock.now())) for one in events))
    async with asyncio.timeout(120):
        while await _count(plane, known) < nodes:
            await asyncio.sleep(0.2)


async def kept(plane: ControlPlane) -> int:
    """Rows of history so far, from PostgreSQL's own insert counters, which are cheap to read."""
    return await _count(
        plane, "SELECT coalesce(sum(n_tup_ins), 0)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'node_usage_%'"
    )


async def _drained(plane: ControlPlane, confirmed: int) -> float | None:
    """Seconds until history contains all confirmed reports; None after the timeout."""
    began = time.monotonic()
    while time.monotonic() < began + _DRAIN_SECONDS:
        if await _count(plane, "SELECT count(*) FROM ingestion.node_usage") >= confirmed:
            return round(time.monotonic() - began, 2)
        await asyncio.sleep(0.25)
    return None


async def _lost(plane: ControlPlane, ledger: dict[str, Any], nodes: int) -> int:
    """The number of confirmed reports that are not in history exactly once."""
    unconfirmed = set(ledger["unconfirmed"])
    meant = {number for number in range(ledger["published"]) if number not in unconfirmed}
    connection = await asyncpg.connect(plane.postgres_dsn)
    try:
        rows = await connection.fetch(_ONCE)
    finally:
        await connection.close()
    return len(meant - {(row["sequence"] - 1) * nodes + row["node"] for row in rows})


async def _count(plane: ControlPlane, query: str) -> int:
    connection = await asyncpg.connect(plane.postgres_dsn)
    try:
        return int(await connection.fetchval(query))
    finally:
        await connection.close()
