"""Repeated kill -9 of one of two replicas: the other takes over every node, and all counts stay exact."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tests.faults.audit import audit, dead_letters
from tests.faults.fleet import Fleet
from tests.faults.ledger import Ledger
from tests.faults.scenario import Result, Strictness, percentile
from tests.faults.scenarios.kills import PolicyWriter, Stage
from tests.faults.site import Site, harness_bus, site
from tests.faults.supervisor import until

from slackwater.model.identifiers import PARTITIONS
from slackwater.runtime.service_list import service_list

SHARED = service_list().partitioned
HAND_OVER_SECONDS = 10.0


async def replicas(folder: Path, strictness: Strictness, times: int) -> Result:
    """Two replicas of each sharded service, killed alternately under load, `times` per service."""
    result = Result()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder))
        second = [f"{name}-2" for name in SHARED]
        for name in second:
            await here.start_service(name, {})
        await here.await_ready(second)
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        fleet = Fleet(16, ledger, interval_seconds=0.5)
        stack.push_async_callback(fleet.close)
        await fleet.start(here.broker.url)
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        stage = Stage(here, fleet, PolicyWriter(here, ledger, 1.0), bus)
        writing = asyncio.create_task(stage.writer.run())
        stack.callback(writing.cancel)
        await asyncio.sleep(4 * strictness.scale + 2)
        for number in range(times):
            for service in SHARED:
                await _kill_one(stage, service, number)
        writing.cancel()
        await fleet.hush()
        result.facts["seconds_to_settle"] = round(await here.settled(bus), 2)
        result.findings = await audit(here, fleet, bus)
        result.facts["dead_letters"] = dict(await dead_letters(bus))
        _judge(result, stage, times, strictness)
    return result


async def _kill_one(stage: Stage, service: str, number: int) -> None:
    """Both replicas share the work; one is killed, the other takes over; the killed one restarts and gets its share."""
    victim, survivor = (service, f"{service}-2") if number % 2 == 0 else (f"{service}-2", service)
    await until(lambda: shared(stage.site, service), 60, f"both replicas of {service} have a share", 0.1)
    if service == "ensurance":
        stage.writer.use(survivor)
    program = stage.site.programs[victim]
    pid, at = program.pid, time.time()
    program.kill()

    async def taken_over() -> bool:
        return await owned_by_the_living(stage.site, service, pid) and await stage.works_since(service, at)

    await until(taken_over, 60, f"{survivor} has taken over from {victim}", 0.05)
    stage.recoveries.setdefault(service, []).append(time.time() - at)
    await stage.site.await_ready([victim])


async def shared(here: Site, service: str) -> bool:
    owners = await here.value(
        f"SELECT count(DISTINCT l.owner) FROM {service}.leases l JOIN {service}.members m"  # noqa: S608 - a constant
        " ON m.member = l.owner AND m.expires_at > now()"
    )
    return bool(owners == 2)


async def owned_by_the_living(here: Site, service: str, pid: int) -> bool:
    """Whether every partition has a living owner that is not the killed process (a member's name contains its pid)."""
    owned = await here.value(
        f"SELECT count(*) FROM {service}.leases l JOIN {service}.members m"  # noqa: S608 - a constant
        " ON m.member = l.owner AND m.expires_at > now() WHERE l.owner NOT LIKE $1",
        f"%/{pid}-%",
    )
    return bool(owned == PARTITIONS)


def _judge(result: Result, stage: Stage, times: int, strictness: Strictness) -> None:
    bound = HAND_OVER_SECONDS * strictness.patience
    for service in SHARED:
        took = stage.recoveries.get(service, [])
        result.recovery_seconds += took
        result.facts[f"hand_over_p99_seconds of {service}"] = round(percentile(took, 0.99), 3)
        result.promise(f"of {service} one was killed {times} times and the other took over", len(took) == times)
        result.promise(f"{service} was handed over within {bound:g} s", max(took, default=bound + 1) <= bound)
    died = {name: program.unasked_exits for name, program in stage.site.programs.items() if program.unasked_exits}
    result.promise("no service dies because of another's death", not died)
    result.max_rss_bytes = max(stage.site.memory.highest.values(), default=0)
    result.facts["max_rss_bytes"] = dict(stage.site.memory.highest)
