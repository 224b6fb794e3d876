"""An owner is stopped for longer than its lease and resumes without knowing it: its writes are rejected."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
from tests.faults.audit import audit
from tests.faults.fleet import Fleet
from tests.faults.ledger import Ledger
from tests.faults.scenario import Result, Strictness
from tests.faults.scenarios.kills import PolicyWriter, Stage
from tests.faults.site import Site, harness_bus, site

SECOND = ("ingestion-2", "ensurance-2")
FROZEN_SECONDS = 15.0
HAND_OVER_SECONDS = 10.0


async def frozen(folder: Path, strictness: Strictness) -> Result:
    """Two replicas of ingestion and ensurance; the first replicas are stopped, one service after the other."""
    result = Result()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder))
        for name in SECOND:
            await here.start_service(name, {})
        await here.await_ready(SECOND)
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        fleet = Fleet(16, ledger, interval_seconds=0.5)
        stack.push_async_callback(fleet.close)
        await fleet.start(here.broker.url)
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        stage = Stage(here, fleet, PolicyWriter(here, ledger, 1.0, replica="ensurance-2"), bus)
        writing = asyncio.create_task(stage.writer.run())
        stack.callback(writing.cancel)
        await asyncio.sleep(8)
        for name in ("ingestion", "ensurance"):
            await _freeze(result, here, name, strictness)
            await asyncio.sleep(4)
        writing.cancel()
        await fleet.hush()
        await here.settled(bus)
        result.findings = await audit(here, fleet, bus)
        died = {name: program.unasked_exits for name, program in here.programs.items() if program.unasked_exits}
        result.promise("no replica died", not died)
        result.facts["fenced_writes"] = {name: await _counter(here, name, "fenced_writes") for name in SECOND} | {
            name: await _counter(here, name, "fenced_writes") for name in ("ingestion", "ensurance")
        }
        result.max_rss_bytes = max(here.memory.highest.values())
    return result


async def _freeze(result: Result, here: Site, name: str, strictness: Strictness) -> None:
    """SIGSTOP, wait until the other replica handles the reports of all nodes, SIGCONT."""
    program = here.programs[name]
    at = time.time()
    program.send(signal.SIGSTOP)
    frozen_until = time.monotonic() + FROZEN_SECONDS
    took = await _all_nodes_since(here, at) if name == "ingestion" else 0.0
    await asyncio.sleep(max(0.0, frozen_until - time.monotonic()))
    program.send(signal.SIGCONT)
    if took:
        result.recovery_seconds.append(took)
        bound = HAND_OVER_SECONDS * strictness.patience
        result.promise(f"the other replica has taken over all nodes within {bound:g} s", took <= bound)


async def _all_nodes_since(here: Site, at: float) -> float:
    """Seconds after `at` until reports of all nodes have been handled."""
    began = time.monotonic()
    while time.monotonic() - began < 60:
        behind = await here.value(
            "SELECT count(*) FROM ingestion.nodes WHERE last_report_at <= to_timestamp($1::float8) + interval '1 s'", at
        )
        if behind == 0:
            return time.monotonic() - began
        await asyncio.sleep(0.1)
    return time.monotonic() - began


async def _counter(here: Site, name: str, what: str) -> float | None:
    try:
        text = (await here.http.get(here.url(name, "/metrics"))).text
    except httpx2.HTTPError:
        return None
    for line in text.splitlines():
        if line.startswith(f"slackwater_ownership_{what}_total{{"):
            return float(line.rsplit(" ", 1)[1])
    return None
