"""Fail-over between two replicas of each service, after a kill and after an orderly stop of one of them.

A small fleet reports continuously, so that every partition has work. Times are measured from the signal: until the
other replica owns every partition in the database (`taken`), until it has published an event for a node of the ended
replica (`first_effect`), and until it has done so for each of its partitions (`every_partition`). The events are
windows of ingestion, peaks of prediction, offers of colocation and intents of ensurance.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import nats
from nats.aio.msg import Msg
from tests.bench.control_plane import ControlPlane, control_plane, load, replica
from tests.bench.figures import spread
from tests.bench.ingestion import describe
from tests.bench.verdict import Scale, Target

from slackwater.model.identifiers import PARTITIONS, SHARDS

TARGET_SECONDS = 10.0
NODES = 64
TELLS = {
    "ingestion": "usage.windowed",
    "prediction": "peak.predicted",
    "colocation": "resources.offered",
    "ensurance": "intent.declared",
}
SETTINGS = {
    "SLACKWATER_INGESTION_WINDOW_SECONDS": "2",
    "SLACKWATER_INGESTION_REPORT_INTERVAL_SECONDS": "0.5",
    "SLACKWATER_PREDICTION_CPU_SETTINGS": '{"cold_hours": 1}',
    "SLACKWATER_PREDICTION_MEMORY_SETTINGS": '{"cold_hours": 1}',
    "SLACKWATER_PREDICTION_HISTOGRAM_UPDATE_SECONDS": "1",
    "SLACKWATER_PREDICTION_CHECK_SECONDS": "0.5",
    "SLACKWATER_PREDICTION_REPORTING_SECONDS": "1",
    "SLACKWATER_COLOCATION_RISE_WINDOWS": "1",
    "SLACKWATER_COLOCATION_RESOURCE_DIFF_THRESHOLD": "0.01",
}
"""Every partition publishes an event every second."""
LOAD = ("--nodes", str(NODES), "--interval", "0.5", "--seconds", "3600", "--period", "2", "--pods", "4")
_STEP_SECONDS = 0.01
_LIMIT_SECONDS = 60.0
_CALM_SECONDS = 2.0


@dataclass(slots=True)
class ArrivalTimes:
    """Arrival times of events on the bus, by partition and type."""

    at: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def record(self, subject: str) -> None:
        _, _, noun, verb, shard, *_ = subject.split(".")
        partition = int(shard) * PARTITIONS // SHARDS
        self.at.setdefault(f"{noun}.{verb}", {}).setdefault(partition, []).append(time.time())

    def first_since(self, event: str, partition: int, since: float) -> float | None:
        return next((at for at in self.at.get(event, {}).get(partition, ()) if at >= since), None)


@dataclass(slots=True)
class Took:
    """Times in seconds from the signal."""

    taken: list[float] = field(default_factory=list)
    first_effect: list[float] = field(default_factory=list)
    every_partition: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        return {name: spread(getattr(self, name)) for name in ("taken", "first_effect", "every_partition")}


def measure(directory: Path, times: int) -> dict[str, Any]:
    """Measures every service with `times` kills and as many orderly stops."""
    return asyncio.run(_measure(directory, times))


async def _measure(directory: Path, times: int) -> dict[str, Any]:
    found: dict[str, dict[str, Took]] = {"killed": {}, "planned": {}}
    async with control_plane(directory, services=()) as plane, AsyncExitStack() as stack:
        arrivals = await stack.enter_async_context(listening(plane))
        store = await asyncpg.connect(plane.postgres_dsn)
        stack.push_async_callback(store.close)
        pairs = {name: await stack.enter_async_context(pair(name, plane, store)) for name in TELLS}
        await describe(plane, NODES)
        await stack.enter_async_context(load(plane, directory / "ledger.json", *LOAD))
        for name, two in pairs.items():
            for how, number in (("killed", signal.SIGKILL), ("planned", signal.SIGTERM)):
                took = found[how].setdefault(name, Took())
                for _ in range(times):
                    await _hand_over(two, number, arrivals, took)
    slowest = max(max(took.every_partition) for took in found["killed"].values())
    figures = {how: {name: took.figures() for name, took in by_name.items()} for how, by_name in found.items()}
    return figures | {
        "nodes": NODES,
        "slowest_seconds": round(slowest, 2),
        "targets": (Target("killed: the other does all after", round(slowest, 2), TARGET_SECONDS, "s", Scale.TIME),),
    }


class Pair:
    """Two replicas of a service."""

    def __init__(self, service: str, plane: ControlPlane, store: asyncpg.Connection[asyncpg.Record]) -> None:
        self.service = service
        self.lives: list[AsyncExitStack] = []
        self.pids: list[int] = []
        self._plane = plane
        self._store = store
        self._started = 0

    async def start(self) -> None:
        """Start one more replica and wait until both have their share."""
        self._started += 1
        label, life = f"{self.service}-{self._started}", AsyncExitStack()
        state = {"SLACKWATER_STATE_DIR": f"{tempfile.gettempdir()}/none-{label}"}
        await life.enter_async_context(replica(self.service, label, self._plane, os.environ | SETTINGS | state))
        self.lives.append(life)
        self.pids.append(self._plane.pids[label])

    async def share(self) -> None:
        """Wait until both own four partitions and have worked for a moment."""
        await _until(lambda: self._has(dict.fromkeys(self.pids, PARTITIONS // 2)))
        await asyncio.sleep(_CALM_SECONDS)

    async def leases(self) -> dict[int, tuple[int, int]]:
        """The pid of the owner (0: none) and the epoch, by partition."""
        rows = await self._store.fetch(f"SELECT partition, owner, epoch FROM {self.service}.leases")  # noqa: S608 - ours
        return {row["partition"]: (_pid(row["owner"]), row["epoch"]) for row in rows}

    async def _has(self, wanted: Mapping[int, int]) -> bool:
        owners = [pid for pid, _ in (await self.leases()).values()]
        return all(owners.count(pid) == count for pid, count in wanted.items())

    async def all_with(self, pid: int) -> bool:
        return await self._has({pid: PARTITIONS})


@asynccontextmanager
async def pair(service: str, plane: ControlPlane, store: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[Pair]:
    two = Pair(service, plane, store)
    try:
        await two.start()
        await two.start()
        yield two
    finally:
        for life in two.lives:
            await life.aclose()


async def _hand_over(two: Pair, number: signal.Signals, arrivals: ArrivalTimes, took: Took) -> None:
    """End the older replica, measure, and start another one."""
    await two.share()
    gone, stays, life = two.pids.pop(0), two.pids[0], two.lives.pop(0)
    lost = [partition for partition, (pid, _) in (await two.leases()).items() if pid == gone]
    arrivals.at.clear()
    began, began_at = time.monotonic(), time.time()
    os.kill(gone, number)
    await _until(lambda: two.all_with(stays))
    took.taken.append(time.monotonic() - began)
    claimed = {partition: epoch / 1000 for partition, (_, epoch) in (await two.leases()).items()}
    event = TELLS[two.service]

    def moments() -> list[float]:
        """Times of events after the claim, which are from the new owner; an epoch is the database's time."""
        firsts = [arrivals.first_since(event, partition, claimed[partition]) for partition in lost]
        return [at - began_at for at in firsts if at is not None]

    async def all_heard() -> bool:
        return len(moments()) == len(lost)

    await _until(all_heard)
    took.first_effect.append(min(moments()))
    took.every_partition.append(max(moments()))
    await _until(lambda: _has_ended(gone))  # a second signal would interrupt its orderly stop
    await life.aclose()
    await two.start()


@asynccontextmanager
async def listening(plane: ControlPlane) -> AsyncIterator[ArrivalTimes]:
    """Records the events of the services."""
    arrivals = ArrivalTimes()
    client = await nats.connect(plane.nats_url)

    async def record(message: Msg) -> None:
        arrivals.record(message.subject)

    for event in TELLS.values():
        await client.subscribe(f"sw.v1.{event}.>", cb=record)
    try:
        yield arrivals
    finally:
        await client.close()


async def _has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Raises TimeoutError after a minute."""
    async with asyncio.timeout(_LIMIT_SECONDS):
        while not await holds():
            await asyncio.sleep(_STEP_SECONDS)


def _pid(owner: str | None) -> int:
    """`host-installation-service/PID-incarnation`."""
    return int(owner.partition("/")[2].partition("-")[0]) if owner else 0
