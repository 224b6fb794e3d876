"""A consumer that is 100 times too slow: it delays no other service, its lag is visible, and it catches up."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tests.faults.audit import audit
from tests.faults.fleet import Fleet
from tests.faults.ledger import Ledger
from tests.faults.scenario import Result, Strictness, percentile
from tests.faults.scenarios.kills import PolicyWriter
from tests.faults.site import Site, harness_bus, pending, site

VICTIM = "console"
RUN_SECONDS, STOP_SECONDS = 0.01, 0.99
"""The share of time in which it runs."""
CATCH_UP_SECONDS = 20.0
BROKER_BYTES = 256 * 2**20


async def slow_consumer(folder: Path, strictness: Strictness) -> Result:
    """The console runs for a hundredth of the time, as if its work took a hundred times as long."""
    result = Result()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder))
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        fleet = Fleet(20, ledger, interval_seconds=0.25)
        stack.push_async_callback(fleet.close)
        await fleet.start(here.broker.url)
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        writing = asyncio.create_task(PolicyWriter(here, ledger, 1.0).run())
        stack.callback(writing.cancel)
        await asyncio.sleep(3)
        assert fleet.through is not None
        calm = await _seconds(fleet, 5)
        before = time.time()
        throttling = asyncio.create_task(_hold_back(here))
        slowed = await _seconds(fleet, max(10.0, 25 * strictness.scale))
        lag = await pending(bus, {VICTIM: None})
        throttling.cancel()
        await asyncio.wait({throttling})
        here.programs[VICTIM].send(signal.SIGCONT)
        released = time.monotonic()
        result.facts["messages_behind_at_the_end"] = lag
        result.promise("its lag can be seen", sum(lag.values()) > 0)
        await _judge_others(result, here, before, calm, slowed, strictness)
        while await pending(bus, {VICTIM: None}) and time.monotonic() - released < 120:
            await asyncio.sleep(0.1)
        result.recovery_seconds.append(time.monotonic() - released)
        bound = CATCH_UP_SECONDS * strictness.patience
        result.promise(f"it catches up within {bound:g} s", result.recovery_seconds[0] <= bound)
        writing.cancel()
        await fleet.hush()
        await here.settled(bus)
        result.findings = await audit(here, fleet, bus)
        result.max_rss_bytes = max(here.memory.highest.values())
        result.facts["max_rss_bytes"] = dict(here.memory.highest)
        result.promise("the broker's memory is bounded", here.memory.highest["nats-server"] <= BROKER_BYTES)
        died = {name: program.unasked_exits for name, program in here.programs.items() if program.unasked_exits}
        result.promise("no service died", not died)
    return result


async def _seconds(fleet: Fleet, seconds: float) -> list[float]:
    """How long each publish of so many seconds took."""
    assert fleet.through is not None
    fleet.through.seconds.clear()
    await asyncio.sleep(seconds)
    return list(fleet.through.seconds)


async def _hold_back(here: Site) -> None:
    program = here.programs[VICTIM]
    while True:
        program.send(signal.SIGSTOP)
        await asyncio.sleep(STOP_SECONDS)
        program.send(signal.SIGCONT)
        await asyncio.sleep(RUN_SECONDS)


async def _judge_others(
    result: Result, here: Site, since: float, calm: list[float], slowed: list[float], strictness: Strictness
) -> None:
    p99 = percentile(calm, 0.99), percentile(slowed, 0.99)
    result.facts["publish_p99_seconds_before_and_during"] = [round(one, 4) for one in p99]
    bound = (3 * p99[0] + 0.05) * strictness.patience
    result.promise("publishers do not notice", p99[1] <= bound)
    rows = await here.rows(
        "SELECT extract(epoch FROM received_at - sampled_at)::float8 AS delay FROM ingestion.node_usage"
        " WHERE sampled_at > to_timestamp($1::float8)",
        since,
    )
    delays = [row["delay"] for row in rows]
    result.facts["delay_p99_seconds in ingestion"] = round(percentile(delays, 0.99), 3)
    result.promise("another consumer of the same stream does not notice",
                   bool(delays) and percentile(delays, 0.99) <= 1.0 * strictness.patience)  # fmt: skip
