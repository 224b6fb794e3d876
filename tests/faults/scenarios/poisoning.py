"""Poison on every subject while good traffic flows: all of it is parked with a reason, the good is hardly delayed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from nats.errors import Error as NatsError
from tests.faults.audit import audit, on_subject
from tests.faults.fleet import Fleet
from tests.faults.ledger import Ledger
from tests.faults.poison import Poison, fresh_corpus
from tests.faults.scenario import Result, Strictness, percentile
from tests.faults.scenarios.kills import PolicyWriter
from tests.faults.site import Site, harness_bus, site

from slackwater.bus.nats import NatsBus
from slackwater.bus.streams import load

DELAY_SECONDS = 1.0
PER_SECOND = 60.0


async def poisoning(folder: Path, strictness: Strictness, per_type: int) -> Result:
    """The whole corpus, spread over time; then everything is settled and judged."""
    result = Result()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder))
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        fleet = Fleet(10, ledger, interval_seconds=0.5)
        stack.push_async_callback(fleet.close)
        await fleet.start(here.broker.url)
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        writing = asyncio.create_task(PolicyWriter(here, ledger, 1.0).run())
        stack.callback(writing.cancel)
        await asyncio.sleep(3)
        began = datetime.now(UTC)
        delays: list[float] = []
        measuring = asyncio.create_task(_console_delays(here, delays))
        stack.callback(measuring.cancel)
        given = await _give(bus, fresh_corpus(per_type))
        await asyncio.sleep(3)
        measuring.cancel()
        writing.cancel()
        await fleet.hush()
        result.facts["seconds_to_settle"] = round(await here.settled(bus, 150), 2)
        result.findings = await audit(here, fleet, bus, strangers=True)
        await _judge_delays(result, here, began, delays, strictness)
        await _judge_letters(result, here, bus, given)
        died = {name: program.unasked_exits for name, program in here.programs.items() if program.unasked_exits}
        result.promise("no service died of poison", not died)
        result.promise("every service is ready", all([await here.ready(name) for name in here.programs]))
        result.max_rss_bytes = max(here.memory.highest.values(), default=0)
        result.facts["max_rss_bytes"] = dict(here.memory.highest)
    return result


async def _give(bus: NatsBus, poisons: list[Poison]) -> list[Poison]:
    """Publish as anyone with a connection could; what the broker itself refuses does not count."""
    given = []
    client = bus.jetstream._nc  # the raw connection: our own publisher would not send such things
    for poison in poisons:
        await asyncio.sleep(1 / PER_SECOND)
        try:
            await client.jetstream(timeout=3).publish(poison.subject, poison.body, headers=poison.headers or None)
        except (NatsError, TimeoutError, ValueError):
            continue
        given.append(poison)
    return given


async def _console_delays(here: Site, delays: list[float]) -> None:
    """How old the newest report in the read model is, again and again."""
    while True:
        newest = await here.value("SELECT max(sampled_at) FROM console.usage_point WHERE node LIKE 'n-%'")
        if newest is not None:
            delays.append((datetime.now(UTC) - newest).total_seconds())
        await asyncio.sleep(0.05)


async def _judge_delays(
    result: Result, here: Site, began: datetime, console: list[float], strictness: Strictness
) -> None:
    rows = await here.rows(
        "SELECT extract(epoch FROM received_at - sampled_at)::float8 AS delay FROM ingestion.node_usage"
        " WHERE node LIKE 'n-%' AND sampled_at > $1",
        began,
    )
    ingestion = [row["delay"] for row in rows]
    bound = DELAY_SECONDS * strictness.patience
    for name, delays in (("ingestion", ingestion), ("console", console)):
        result.facts[f"delay_p50_seconds of good traffic in {name}"] = round(percentile(delays, 0.5), 3)
        result.facts[f"delay_p99_seconds of good traffic in {name}"] = round(percentile(delays, 0.99), 3)
        result.facts[f"delay_max_seconds of good traffic in {name}"] = round(max(delays, default=0), 3)
        result.promise(f"good traffic in {name} is delayed by less than {bound:g} s (p99)",
                       percentile(delays, 0.99) < bound and bool(delays))  # fmt: skip


async def _judge_letters(result: Result, here: Site, bus: NatsBus, given: list[Poison]) -> None:
    """Each undecodable message is buried once by each durable consumer that reads its type, with a reason."""
    readers = Counter(spec.event for name, spec in load().consumers.items() if name.split("-")[0] in here.programs)
    letters = await on_subject(bus, "sw.v1.dlq.>", headers_only=True)
    by_consumer = Counter(headers.get("sw-consumer", "") for headers, _ in letters)
    reasons = Counter(headers.get("sw-reason", "") for headers, _ in letters)
    result.facts["poison_given"] = len(given)
    result.facts["poison_kinds"] = len({poison.kind for poison in given})
    result.facts["dead_letters_by_reason"] = dict(reasons)
    result.promise("every dead letter says why", all(reasons.keys()))
    topology = load()
    missing = {}
    for payload, count in Counter(poison.payload for poison in given if poison.undecodable).items():
        for name, spec in topology.consumers.items():
            reads = spec.event == payload.TYPE and name.split("-")[0] in here.programs and spec.deliver != "new"
            if reads and by_consumer[name] < count and payload.STREAM != "STATE":
                missing[name] = (by_consumer[name], count)
    result.facts["readers"] = sum(readers.values())
    result.facts["letters_missing"] = missing
    result.promise("every consumer buried every undecodable message it was given", not missing)
    result.facts["seconds_of_poison"] = round(len(given) / PER_SECOND, 1)
    result.facts["at"] = round(time.time())
