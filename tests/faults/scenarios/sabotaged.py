"""Verifies the harness: it must detect defects that are planted in the services."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from tests.faults.audit import audit
from tests.faults.fleet import Fleet
from tests.faults.ledger import Ledger
from tests.faults.sabotage import KINDS
from tests.faults.scenario import Result, Strictness
from tests.faults.scenarios.kills import PolicyWriter
from tests.faults.site import harness_bus, site


async def sabotaged(folder: Path, strictness: Strictness) -> Result:
    """Plants each defect in all services, under load with a few kills of the console; the counts must show each."""
    result = Result()
    for kind in KINDS:
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(site(folder / kind, sabotage=kind))
            ledger = Ledger(folder / kind / "ledger.jsonl")
            stack.callback(ledger.close)
            fleet = Fleet(8, ledger, interval_seconds=0.5)
            stack.push_async_callback(fleet.close)
            await fleet.start(here.broker.url)
            bus = await stack.enter_async_context(harness_bus(here.broker.url))
            writing = asyncio.create_task(PolicyWriter(here, ledger).run())
            stack.callback(writing.cancel)
            for _ in range(3):
                await asyncio.sleep(4)
                here.programs["console"].kill()
            await here.await_ready(["console"])
            writing.cancel()
            await fleet.hush()
            await here.settled(bus)
            found = await audit(here, fleet, bus)
            result.facts[f"found with {kind}"] = {"lost": found.lost, "duplicates": found.duplicates,
                                                  "phantom": found.phantom}  # fmt: skip
            result.promise(f"{kind} is found", not found.clean)
    return result
