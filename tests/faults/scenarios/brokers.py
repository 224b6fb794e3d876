"""Three brokers in a cluster, of which the one that leads the streams is killed, stopped, or cut off, under load."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from nats.errors import Error as NatsError
from tests.faults.audit import audit, dead_letters
from tests.faults.cluster import SIZE, Cluster, cluster
from tests.faults.fleet import Fleet
from tests.faults.ledger import Ledger
from tests.faults.scenario import Result, Strictness, percentile
from tests.faults.scenarios.kills import NODES, PolicyWriter, Stage
from tests.faults.site import SERVICES, harness_bus, site
from tests.faults.supervisor import until

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.nats_bus import NatsBus

FAULTS = ("killed", "stopped", "cut off")
WORKS = ("ingestion", "colocation", "console")
"""Reports, offers and pages: what must work again while a broker is still away."""
AWAY_SECONDS = 30.0
BACK_SECONDS = 40.0


async def brokers(folder: Path, strictness: Strictness, times: int) -> Result:
    """`times` rounds over the faults. Everything must work again before the broker comes back, and nothing
    acknowledged is lost or doubled."""
    result = Result()
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(cluster(folder / "brokers"))
        here = await stack.enter_async_context(site(folder, (), broker=made.servers["n1"]))
        for name in SERVICES:
            await here.start_service(name, {}, made.url)
        await here.await_ready(SERVICES)
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        fleet = Fleet(NODES, ledger, interval_seconds=0.5)
        stack.push_async_callback(fleet.close)
        await fleet.start(made.url)
        bus = await stack.enter_async_context(harness_bus(made.url))
        stage = Stage(here, fleet, PolicyWriter(here, ledger), bus)
        writing = asyncio.create_task(stage.writer.run())
        stack.callback(writing.cancel)
        await asyncio.sleep(4 * strictness.scale + 1)
        result.promise("every stream has three replicas", set((await replicas(bus)).values()) == {SIZE})
        rows = [await _fault(made, stage, fault, strictness) for _ in range(times) for fault in FAULTS]
        writing.cancel()
        await fleet.hush()
        result.facts["seconds_to_settle"] = round(await here.settled(bus), 2)
        await until(lambda: whole(bus), 120, "the cluster is whole", 0.2)
        result.findings = await audit(here, fleet, bus, telemetry_may_vanish=True)
        result.facts["dead_letters"] = dict(await dead_letters(bus))
        _judge(result, stage, rows, strictness)
    return result


Row = tuple[str, str, dict[str, float], int, int]
"""Fault, victim, seconds until each service worked again, streams led before, streams that others lead meanwhile."""


async def _fault(made: Cluster, stage: Stage, fault: str, strictness: Strictness) -> Row:
    before = await leaders(stage.bus)
    victim = Counter(before.values()).most_common(1)[0][0]
    led = [stream for stream, leader in before.items() if leader == victim]
    at, recoveries = time.time(), dict[str, float]()
    await _begin(made, victim, fault)

    async def recovered(service: str) -> None:
        async def works() -> bool:
            return await stage.works_since(service, at)

        await until(works, 120, f"{service} works again while {victim} is {fault}", 0.05)
        recoveries[service] = time.time() - at

    await asyncio.gather(*map(recovered, WORKS))
    await asyncio.sleep(max(0.0, AWAY_SECONDS * strictness.scale - (time.time() - at)))
    moved = 0

    others = ",".join(server.url for name, server in made.servers.items() if name != victim)
    async with harness_bus(others) as bus:

        async def all_moved() -> bool:
            nonlocal moved
            now = await leaders(bus)
            moved = sum(now.get(stream) not in (victim, "", None) for stream in led)
            return moved == len(led)

        await until(all_moved, 60, f"others lead the streams of {victim}", 0.2)
    await _end(made, victim, fault)
    await until(lambda: whole(stage.bus), 120, "every replica is current again", 0.2)
    return fault, victim, recoveries, len(led), moved


async def _begin(made: Cluster, victim: str, fault: str) -> None:
    match fault:
        case "killed":
            await made.servers[victim].kill()
        case "stopped":
            made.pause(victim)
        case _:
            made.cut_off(victim)


async def _end(made: Cluster, victim: str, fault: str) -> None:
    match fault:
        case "killed":
            await made.servers[victim].start()
        case "stopped":
            made.resume(victim)
        case _:
            made.rejoin(victim)


async def leaders(bus: NatsBus) -> Mapping[str, str]:
    """Returns the leader of each stream that has one; none while the broker does not answer."""
    found = {}
    for stream in load().streams:
        try:
            info = await bus.jetstream.stream_info(stream)
        except (NatsError, TimeoutError):
            continue
        found[stream] = (info.cluster.leader if info.cluster else "") or ""
    return found


async def replicas(bus: NatsBus) -> Mapping[str, int]:
    """Returns the number of replicas of each stream."""
    return {name: (await bus.jetstream.stream_info(name)).config.num_replicas or 1 for name in load().streams}


async def whole(bus: NatsBus) -> bool:
    """Returns whether every stream has a leader and each of its replicas is current."""
    for stream in load().streams:
        try:
            cluster = (await bus.jetstream.stream_info(stream)).cluster
        except (NatsError, TimeoutError):
            return False
        others = (cluster.replicas or []) if cluster else []
        if cluster is None or not cluster.leader or len(others) < SIZE - 1 or not all(one.current for one in others):
            return False
    return True


def _judge(result: Result, stage: Stage, rows: list[Row], strictness: Strictness) -> None:
    head = "".join(f"{name:>12}" for name in WORKS)
    result.lines = [f"          {'broker is':10}{'streams led':>12}{head}   seconds until it works again"]
    bound = BACK_SECONDS * strictness.patience
    for fault, _, recoveries, led, moved in rows:
        figures = "".join(f"{recoveries[name]:12.1f}" for name in WORKS)
        result.lines.append(f"          {fault:10}{led:>12}{figures}")
        result.recovery_seconds += recoveries.values()
        result.promise(f"{fault}: everything works again within {bound:g} s, before it comes back",
                       max(recoveries.values()) <= bound)  # fmt: skip
        result.promise(f"{fault}: others lead its streams", moved == led)
    result.facts["recovery_p99_seconds"] = round(percentile(result.recovery_seconds, 0.99), 2)
    died = {name: program.unasked_exits for name, program in stage.site.programs.items() if program.unasked_exits}
    result.facts["exits_nobody_asked_for"] = died
    result.promise("no service dies because of a broker", not died)
    result.max_rss_bytes = max(stage.site.memory.highest.values(), default=0)
    result.facts["max_rss_bytes"] = dict(stage.site.memory.highest)
