"""Throughput and latency of the outbox, from a committed transaction to the stream.

Two measurements on one service's outbox, with PostgreSQL's fsync enabled. `capacity`: the relay starts with a backlog,
and events are counted as they arrive on the bus. `latency`: another process commits transactions of three events (two
decision records and an offer, as colocation does) at a fixed rate; the time is measured from the return of the commit
until a subscriber of the stream's subjects has the event (0 if it arrives before the commit returns).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
from nats.aio.msg import Msg
from tests.bench.control_plane import ROOT, ControlPlane, control_plane
from tests.bench.figures import spread
from tests.bench.processes import cpu_seconds
from tests.bench.verdict import Scale, Target

from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord, Input, Replay, Term
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.identifiers import new_id
from slackwater.model.quantities import Resources
from slackwater.model.time import SystemClock
from slackwater.runtime.gc_tuning import tune_gc
from slackwater.store.engine import PostgresDatabase, connect_database

TARGET_RATE, TARGET_P99_SECONDS = 1500.0, 0.020
_BACKLOG = 12_000
_NODES = 500
_WRITERS = 6
_FACTS = 3
_SUBJECTS = ("sw.v1.decision.recorded.>", "sw.v1.resources.offered.>")
_ARRIVAL_SECONDS = 15.0


def measure(directory: Path, *, rate: float = TARGET_RATE, seconds: float = 20.0) -> dict[str, Any]:
    """Measures the figure with `rate` events per second, scaled by the speed of the machine; see the module."""
    return asyncio.run(_measure(directory, rate, seconds))


async def _measure(directory: Path, rate: float, seconds: float) -> dict[str, Any]:
    async with control_plane(directory, []) as plane:
        arrived: dict[str, float] = {}
        client = await nats.connect(plane.nats_url)

        async def note(message: Msg) -> None:
            arrived.setdefault((message.headers or {})["Nats-Msg-Id"], time.time())

        async with connect_bus(plane.nats_url, name="bench-declare"):
            pass
        for subject in _SUBJECTS:
            await client.subscribe(subject, cb=note)
        try:
            capacity = await _capacity(plane, arrived, directory)
            latency = await _latency(plane, arrived, directory, rate, seconds)
        finally:
            await client.close()
    return {
        "capacity_facts_per_second": capacity,
        **latency,
        "offered_per_second": round(rate),
        "targets": targets(capacity, latency, rate),
    }


def targets(capacity: float, latency: dict[str, Any], rate: float) -> tuple[Target, ...]:
    p99 = latency["commit_to_stream"]["p99"]
    committed = round(latency["committed_per_second"] / rate, 3)
    return (
        Target("relayed facts", capacity, TARGET_RATE, "/s", Scale.RATE),
        Target(f"of {TARGET_RATE:,.0f} facts/s committed", committed, 0.98, at_least=True),
        Target("lost", latency["lost"], 0),
        Target(
            "commit to stream p99", None if p99 is None else 1000 * p99, 1000 * TARGET_P99_SECONDS, "ms", Scale.TIME
        ),
    )


async def _capacity(plane: ControlPlane, arrived: dict[str, float], directory: Path) -> int:
    """Events per second of a backlog, from the first to the last arrival."""
    written = await _run(plane, directory, "write", "--facts", str(_BACKLOG), "--rate", "0")
    relay = await _start(plane, directory, "relay")
    try:
        await _all_of(written, arrived)
    finally:
        relay.terminate()
        await relay.wait()
    moments = [arrived[identity] for identity in written if identity in arrived]
    return round((len(moments) - 1) / (max(moments) - min(moments))) if len(moments) > 1 else 0


async def _latency(
    plane: ControlPlane, arrived: dict[str, float], directory: Path, rate: float, seconds: float
) -> dict[str, Any]:
    relay = await _start(plane, directory, "relay")
    try:
        await asyncio.sleep(2)
        used, began = cpu_seconds(relay.pid), time.monotonic()
        facts = int(rate * seconds)
        written = await _run(plane, directory, "write", "--facts", str(facts), "--rate", str(rate))
        relay_cores = (cpu_seconds(relay.pid) - used) / (time.monotonic() - began)
        await _all_of(written, arrived)
    finally:
        relay.terminate()
        await relay.wait()
    delays = [max(0.0, arrived[identity] - at) for identity, at in written.items() if identity in arrived]
    span = max(written.values()) - min(written.values())
    return {
        "committed_per_second": round(len(written) / span),
        "commit_to_stream": spread(delays, digits=4),
        "lost": len(written) - len(delays),
        "relay_cores": round(relay_cores, 3),
    }


async def _all_of(written: dict[str, float], arrived: dict[str, float]) -> None:
    deadline = time.monotonic() + _ARRIVAL_SECONDS
    while time.monotonic() < deadline and not written.keys() <= arrived.keys():
        await asyncio.sleep(0.05)


async def _start(plane: ControlPlane, directory: Path, *arguments: str) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "tests.bench.outbox", *arguments, "--out", str(directory / "written.json")]
    servers = ["--nats", plane.nats_url, "--postgres", plane.addresses["colocation"]]
    return await asyncio.create_subprocess_exec(*command, *servers, cwd=ROOT, stdout=subprocess.DEVNULL)


async def _run(plane: ControlPlane, directory: Path, *arguments: str) -> dict[str, float]:
    """Ids of the committed events, with the return time of their commit."""
    process = await _start(plane, directory, *arguments)
    if await process.wait() != 0:
        raise RuntimeError("the writer of facts failed; see its messages above")
    found: dict[str, float] = json.loads((directory / "written.json").read_text())
    return found


async def relay(options: argparse.Namespace) -> None:
    """Runs only the relay, until terminated."""
    database = connect_database(options.postgres, "colocation", SystemClock())
    async with connect_bus(options.nats, name="bench-relay", declares=False) as bus:
        tune_gc()
        await database.relay(bus.carry).run()


async def write(options: argparse.Namespace) -> None:
    """Commits events at a rate (0: as fast as possible) from several writers."""
    database = connect_database(options.postgres, "colocation", SystemClock())
    committed: dict[str, float] = {}
    transactions = iter(range(options.facts // _FACTS))
    began = time.monotonic()

    async def writer() -> None:
        for number in transactions:
            if options.rate:
                await asyncio.sleep(max(0.0, began + number * _FACTS / options.rate - time.monotonic()))
            events = facts_of(f"node-{number % _NODES:05d}", number)
            await _commit(database, events)
            now = time.time()
            committed.update((event.id, now) for event in events)

    await asyncio.gather(*(writer() for _ in range(_WRITERS)))
    await database.close()
    options.out.write_text(json.dumps(committed))


async def _commit(database: PostgresDatabase, events: Sequence[Event[Any]]) -> None:
    async with database.unit_of_work() as unit:
        for event in events:
            await unit.publish(event)


def facts_of(node: str, number: int) -> list[Event[Any]]:
    """The events of colocation for one node: two decision records and the offer."""
    now = datetime.now(UTC)
    records = [_record(node, subject, number, now) for subject in ("batch-cpu", "batch-memory")]
    offer = ResourcesOffered(
        node=node, offered_at=now, generation=number, batch=Resources(8000, 2**34), degraded=None,
        decision_ids={record.subject: record.id for record in records},
    )  # fmt: skip
    payloads = [*(DecisionRecorded(record=record) for record in records), offer]
    return [event_of(payload, source="bench", time=now) for payload in payloads]


def _record(node: str, subject: str, number: int, now: datetime) -> DecisionRecord:
    return DecisionRecord(
        id=new_id(),
        kind=DecisionKind.OFFER,
        node=node,
        subject=subject,
        service="colocation",
        rule="usage",
        reason=Reason.OFFER_CHANGED,
        decided_at=now,
        trigger_event_id=new_id(),
        inputs=tuple(
            Input(name=f"input_{n}", value=number, unit="milli-cores", source=new_id(), observed_at=now)
            for n in range(12)
        ),
        terms=(Term(name="capacity", value=8000),),
        result=8000,
        unit="milli-cores",
        alternatives=(),
        replay=Replay(function="bench", arguments={"pods": [{"uid": f"pod-{n}", "cpu": n} for n in range(20)]}),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("relay", "write"))
    parser.add_argument("--nats", required=True)
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--facts", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    asyncio.run(relay(options) if options.what == "relay" else write(options))


if __name__ == "__main__":
    main()
