"""2,000 agents lose their broker at the same time: all reconnect soon, and no intent is answered twice."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.audit import on_subject
from tests.faults.ledger import Key, Outcome, read
from tests.faults.oracle import compare
from tests.faults.scenario import Result, Strictness, percentile
from tests.faults.site import Site, harness_bus, site
from tests.faults.supervisor import Program, cpu_seconds, until

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.errors import Unavailable

AGENTS, PROCESSES = 2000, 2
BACK_SECONDS = 30.0
BROKER_BYTES = 512 * 2**20


async def reconnecting(folder: Path, strictness: Strictness, agents: int = AGENTS) -> Result:
    """Declares intents before and after the kill: each agent answers each generation, and answers are stored once."""
    result = Result()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder, ("ingestion",)))
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        names = [f"h-{number:04d}" for number in range(agents)]
        await _declare(bus, names, 1)
        began = time.time()
        for number in range(PROCESSES):
            share = agents // PROCESSES
            options = ["--first", str(number * share), "--count", str(share), "--folder", str(folder)]
            command = [sys.executable, "-m", "tests.faults.herd", "--nats", here.broker.url, *options]
            program = here.programs[f"herd-{number}"] = Program(f"herd-{number}", command, folder, {})
            await program.start()
        result.facts["seconds_to_connect_all"] = round(
            await until(lambda: _all_since(folder, agents, began, "fact"), 120, "all are there", 0.2), 1
        )
        await asyncio.sleep(3)
        at = time.time()
        await here.broker.kill()
        await asyncio.sleep(1)
        await here.broker.start()
        await _declare(bus, names, 2)
        took = await until(lambda: _all_since(folder, agents, at, "fact"), 180, "all are back and have answered", 0.2)
        result.recovery_seconds = sorted(stamp - at for stamp in _stamps(folder, at, "fact").values())
        result.facts["broker_cpu_seconds_while_they_came_back"] = round(cpu_seconds(here.broker.pid or 0), 2)
        result.facts["ingestion_waits"] = await here.ready("ingestion")
        await asyncio.sleep(2)
        await _judge(result, here, bus, folder, took, strictness, agents)
    return result


async def _judge(result: Result, here: Site, bus: NatsBus, folder: Path, took: float, strictness: Strictness,
                 agents: int) -> None:  # fmt: skip
    meant: dict[Key, Outcome] = {}
    for ledger in folder.glob("herd-*.jsonl"):
        meant |= read(ledger)
    stored = [Key("intent.observed", headers["ce-id"])
              for headers, _ in await on_subject(bus, "sw.v1.intent.observed.>", headers_only=True)]  # fmt: skip
    result.findings = compare(meant, stored)
    bound = BACK_SECONDS * strictness.patience
    result.promise(f"{agents} agents are back within {bound:g} s", took <= bound)
    spread = percentile(result.recovery_seconds, 0.95) - percentile(result.recovery_seconds, 0.05)
    result.facts["spread_p5_to_p95_seconds"] = round(spread, 2)
    result.promise("they do not come all at once", spread > 0.3)
    result.max_rss_bytes = here.memory.highest["nats-server"]
    result.facts["max_rss_bytes"] = dict(here.memory.highest)
    result.promise("the broker's memory is bounded", result.max_rss_bytes <= BROKER_BYTES)
    result.promise("ingestion is ready", await here.ready("ingestion"))


async def _declare(bus: NatsBus, names: list[str], generation: int) -> None:
    """Publish one document per agent, with retries until the broker has it."""
    for start in range(0, len(names), 64):
        await asyncio.gather(*(_declare_one(bus, name, generation) for name in names[start : start + 64]))


async def _declare_one(bus: NatsBus, name: str, generation: int) -> None:
    now = datetime.now(UTC)
    document = IntentDeclared(node=name, writer="faults", generation=generation, declared_at=now, lease_seconds=60)
    event = event_of(document, source="faults", time=now)
    while True:
        try:
            await bus.publish(event)
        except Unavailable:
            await asyncio.sleep(0.1)
        else:
            return


def _stamps(folder: Path, since: float, what: str) -> dict[str, float]:
    """The time of the first acknowledged message of each agent after a time."""
    found: dict[str, float] = {}
    for log in folder.glob("herd-*.log"):
        for line in log.read_text(errors="replace").splitlines():
            words = line.split()
            if len(words) == 3 and words[2] == what and float(words[0]) > since:
                found.setdefault(words[1], float(words[0]))
    return found


async def _all_since(folder: Path, agents: int, since: float, what: str) -> bool:
    return len(_stamps(folder, since, what)) >= agents
