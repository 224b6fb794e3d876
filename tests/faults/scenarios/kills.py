"""kill -9 of all processes in turn, under load: no acked operation is lost, no action happens twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from tests.faults.audit import audit, dead_letters
from tests.faults.fleet import Fleet
from tests.faults.ledger import Key, Ledger, Outcome
from tests.faults.scenario import Result, Strictness, percentile
from tests.faults.site import SERVICES, Site, harness_bus, site
from tests.faults.supervisor import until

from slackwater.bus.connect.nats_bus import NatsBus

NODES = 12
RECOVERY_SECONDS = 5.0
GIVE_UP_SECONDS = 60.0


class PolicyWriter:
    """Changes the NodeQOS document over HTTP continuously; each acknowledged change is a durable fact."""

    def __init__(self, here: Site, ledger: Ledger, every_seconds: float = 0.5, replica: str = "ensurance") -> None:
        self._site = here
        self._replica = replica
        self._ledger = ledger
        self._every = every_seconds
        self._turn = 0
        self.last_acked_at = 0.0

    def use(self, replica: str) -> None:
        """Send further requests to this replica."""
        self._replica = replica

    async def run(self) -> None:
        generation = (await self._read())["metadata"]["generation"]
        while True:
            generation = await self._change(generation)
            await asyncio.sleep(self._every)

    async def _change(self, generation: int) -> int:
        """Make one change. After a lost answer, looks the result up before the next one."""
        document = await self._read()
        if document["metadata"]["generation"] != generation:
            generation = document["metadata"]["generation"]
            self._ledger.came(Key("policy", str(generation)), Outcome.ACKED)  # unknown is resolved: it is there
        self._turn += 1
        document["spec"]["rules"][0]["metricRule"]["value"] = 0.10 + 0.001 * (self._turn % 50 + 1)
        key = Key("policy", str(generation + 1))
        self._ledger.meant(key)
        try:
            answer = await self._site.http.put(self._url(), json=document)
        except httpx2.HTTPError:
            return generation
        if answer.status_code != 200:
            return generation
        self._ledger.came(key, Outcome.ACKED)
        self.last_acked_at = time.time()
        return generation + 1

    async def _read(self) -> Any:
        while True:
            try:
                answer = await self._site.http.get(self._url())
                if answer.status_code == 200:
                    return answer.json()
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.05)

    def _url(self) -> str:
        return self._site.url(self._replica, "/v1/nodeqos/default")


@dataclass
class Stage:
    """Site, load and probes of one scenario of kills."""

    site: Site
    fleet: Fleet
    writer: PolicyWriter
    bus: NatsBus
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    writing: asyncio.Task[None] | None = None

    async def works_since(self, victim: str, at: float) -> bool:
        """Whether the victim has processed something that began after `at` (seconds since 1970)."""
        moment = datetime.fromtimestamp(at, UTC)
        match victim:
            case "ensurance":
                return self.writer.last_acked_at > at and await self._intent_since(moment)
            case "console":
                newest = await self.site.value("SELECT max(sampled_at) FROM console.usage_point")
            case "prediction":
                newest = await self.site.value(  # by the time of the fold: a window later than its report
                    "SELECT to_timestamp(max(published_at)) FROM prediction.published_windows"
                )
            case "colocation":
                newest = await self.site.value("SELECT max(handled_at) FROM colocation.inbox")
            case _:  # ingestion, and the servers below it: every node must have reported
                newest = await self.site.value("SELECT min(newest_at) FROM ingestion.nodes WHERE newest_at IS NOT NULL")
        return newest is not None and newest > moment

    async def _intent_since(self, moment: datetime) -> bool:
        changed = await self.site.value("SELECT max(changed_at) FROM ensurance.guarded_nodes")
        return changed is not None and changed > moment

    async def recovered(self, victim: str, at: float) -> None:
        """Wait until the victim works again, and record the recovery time."""

        async def works() -> bool:
            return await self.works_since(victim, at)

        await until(works, GIVE_UP_SECONDS, f"{victim} works again", 0.03)
        self.recoveries.setdefault(victim, []).append(time.time() - at)


async def kill_service(stage: Stage, name: str) -> None:
    stage.site.programs[name].kill()


async def kill_broker(stage: Stage, _: str) -> None:
    await stage.site.broker.kill()
    await asyncio.sleep(0.1)
    await stage.site.broker.start()


async def kill_database(stage: Stage, _: str) -> None:
    await stage.site.kill_database()
    await asyncio.sleep(0.1)
    await stage.site.start_database()


Kill = Callable[[Stage, str], Awaitable[None]]
VICTIMS: dict[str, Kill] = {
    **dict.fromkeys(SERVICES, kill_service),
    "nats-server": kill_broker,
    "postgresql": kill_database,
}


async def kills(folder: Path, strictness: Strictness, victims: tuple[str, ...], times: int) -> Result:
    """`times` rounds over the victims; each kill waits until the previous victim works again."""
    result = Result()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder))
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        fleet = Fleet(NODES, ledger, interval_seconds=0.5)
        stack.push_async_callback(fleet.close)
        await fleet.start(here.broker.url)
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        stage = Stage(here, fleet, PolicyWriter(here, ledger), bus)
        writing = asyncio.create_task(stage.writer.run())
        stack.callback(writing.cancel)
        await asyncio.sleep(4 * strictness.scale + 1)
        for _ in range(times):
            for victim in victims:
                at = time.time()
                await VICTIMS[victim](stage, victim)
                await stage.recovered(victim, at)
                await asyncio.sleep(0.2)
        writing.cancel()
        await fleet.hush()
        result.facts["seconds_to_settle"] = round(await here.settled(bus), 2)
        result.findings = await audit(here, fleet, bus, telemetry_may_vanish="nats-server" in victims)
        result.facts["dead_letters"] = dict(await dead_letters(bus))
        _judge(result, stage, victims, times, strictness)
    return result


def _judge(result: Result, stage: Stage, victims: tuple[str, ...], times: int, strictness: Strictness) -> None:
    for victim in victims:
        took = stage.recoveries.get(victim, [])
        result.recovery_seconds += took
        result.facts[f"recovery_p99_seconds of {victim}"] = round(percentile(took, 0.99), 3)
        result.facts[f"recovery_p50_seconds of {victim}"] = round(percentile(took, 0.5), 3)
        result.promise(f"{victim} was killed {times} times and came back each time", len(took) == times)
        bound = RECOVERY_SECONDS * strictness.patience
        result.promise(f"{victim} is back within {bound:g} s (p99)", percentile(took, 0.99) <= bound)
    died = {name: program.unasked_exits for name, program in stage.site.programs.items() if program.unasked_exits}
    result.facts["exits_nobody_asked_for"] = died
    result.promise("no service dies because of another's death", not died)
    result.max_rss_bytes = max(stage.site.memory.highest.values(), default=0)
    result.facts["max_rss_bytes"] = dict(stage.site.memory.highest)
