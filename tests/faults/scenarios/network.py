"""Network faults between agents, services and broker: partition, half-open connections, latency, resets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.faults.audit import audit, messages
from tests.faults.fleet import Fleet, LedgerBus
from tests.faults.ledger import Ledger
from tests.faults.machine import effects, limits
from tests.faults.oracle import Findings
from tests.faults.proxy import Behaviour, Proxy, proxying
from tests.faults.scenario import Result, Strictness, percentile
from tests.faults.scenarios.agents import NODE, Writer, agent_program, completed, double_effects
from tests.faults.scenarios.kills import PolicyWriter
from tests.faults.site import SERVICES, Site, harness_bus, site
from tests.faults.supervisor import until

from slackwater.agent.domain.controls.cpu_limit import RESTORE_STEP

CRUNCH, INDEX = f"{NODE}-crunch", f"{NODE}-index"
WANTED = 700
CAPACITY = 8000
LEASE_SECONDS = 15.0
RETRIES = 1.10


@dataclass(slots=True)
class Cut:
    """Times of the partition and of its end, and of the last document before it (seconds since 1970)."""

    at: float
    healed_at: float
    last_renewal_at: float


async def partition(folder: Path, strictness: Strictness, half_open: bool = False) -> Result:
    """No network between agent and broker for 60 s: limits hold until the lease ends, then are restored in steps; no
    duplicate action when held messages arrive late."""
    result = Result()
    lease, apart = LEASE_SECONDS * strictness.scale, 60.0 * strictness.scale
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder, ("ingestion",)))
        proxy = await stack.enter_async_context(proxying(_port(here)))
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        writer = Writer(bus, ledger, lease_seconds=lease)
        agent = agent_program(folder, proxy.url)
        stack.push_async_callback(agent.stop)
        await agent.start()
        writer.throttles[CRUNCH] = WANTED
        await writer.declare()
        await until(lambda: _limit_is(folder, WANTED), 30, "the limit is in force")
        writer.evict("nobody-lives-here")
        cut = await _cut(proxy, writer, half_open, lease, apart)
        _judge_limits(result, folder, cut, lease)
        back = time.time()
        await until(lambda: _limit_is(folder, WANTED - 100), 60, "the newest intent is in force after healing")
        result.recovery_seconds.append(time.time() - back)
        await until(lambda: _told(bus, ledger), 60, "every eviction was told")
        await asyncio.sleep(2)
        result.findings = await completed(bus, ledger) + double_effects(folder)
        await agent.stop()
        await here.settled(bus)
        result.findings += await _gaps(result, here, bus)
        bound = 10.0 * strictness.patience
        result.promise(f"converged within {bound:g} s after healing", result.recovery_seconds[0] <= bound)
        result.max_rss_bytes = max(here.memory.highest.values())
    return result


async def _cut(proxy: Proxy, writer: Writer, half_open: bool, lease: float, apart: float) -> Cut:
    """Renew, cut, and keep writing: a new limit and an eviction that the agent receives after the partition."""
    await writer.declare()
    renewed = time.time()
    await asyncio.sleep(0.5)
    at = time.time()
    if half_open:
        proxy.half_open()
    else:
        proxy.partition()
    writer.throttles[CRUNCH] = WANTED - 100
    writer.evict(INDEX)
    while time.time() - at < apart:
        await writer.declare()
        await asyncio.sleep(lease / 3)
    healed = time.time()
    proxy.heal()
    await writer.declare()
    return Cut(at, healed, renewed)


def _judge_limits(result: Result, folder: Path, cut: Cut, lease: float) -> None:
    """Checks the lease rule on the writes to the machine during the partition."""
    writes = [
        (float(str(line["at"])), str(line["text"]))
        for line in effects(folder)
        if line["what"] == "write" and line["field"] == "cpu_limit" and str(line["path"]).endswith(CRUNCH)
    ]
    during = [(at, text) for at, text in writes if cut.at < at < cut.healed_at]
    early = [text for at, text in during if at < cut.last_renewal_at + lease - 0.3]
    amounts = [CAPACITY if text == "max" else int(text) for _, text in during]
    steps = [after - before for before, after in zip([WANTED, *amounts], amounts, strict=False)]
    result.facts["limits_while_apart"] = [text for _, text in during]
    result.facts["first_step_seconds_after_the_cut"] = round(during[0][0] - cut.at, 2) if during else None
    result.promise("the last limit held until the lease ran out", not early)
    result.promise("after the lease the limit went back", bool(during) and amounts[-1] > WANTED)
    result.promise("it went back step by step, never tighter", all(step >= 0 for step in steps))
    largest = 2.5 * RESTORE_STEP * CAPACITY
    bounded = all(step <= largest for step, amount in zip(steps, amounts, strict=False) if amount < CAPACITY)
    result.promise("no step was larger than the rule allows", bounded)


async def _limit_is(folder: Path, milli: int) -> bool:
    return limits(folder).get(CRUNCH) == str(milli)


async def _told(bus: object, ledger: Ledger) -> bool:
    return (await completed(bus, ledger)).lost == 0  # type: ignore[arg-type] # a NatsBus


async def _gaps(result: Result, here: Site, bus: object) -> Findings:
    """The gaps that ingestion counted equal the reports missing in its history. The agent counts at least as many: a
    report that it dropped without an answer may still arrive."""
    counted = await here.value("SELECT gaps FROM ingestion.nodes WHERE name = $1", NODE) or 0
    rows = await here.rows("SELECT max(sequence) AS last, count(*) AS kept FROM ingestion.node_usage WHERE node = $1",
                           NODE)  # fmt: skip
    missing = rows[0]["last"] - rows[0]["kept"]
    reports = [json.loads(body) for _, body in await messages(bus, "usage.reported")]  # type: ignore[arg-type] # a NatsBus
    dropped = max(report.get("dropped_reports", 0) for report in reports if report["node"] == NODE)
    result.facts |= {"gaps_counted": counted, "reports_missing": missing, "reports_dropped_by_the_agent": dropped}
    result.promise("the agent dropped at least what is missing", dropped >= missing)
    return Findings(offered=rows[0]["last"], acked=rows[0]["kept"], gaps=missing,
                    gaps_unaccounted=abs(counted - missing))  # fmt: skip


async def slow(folder: Path, strictness: Strictness) -> Result:
    """All connections to the broker have latency, low bandwidth and periodic resets: slower, but nothing is lost or
    duplicated, and there is no retry storm."""
    result = Result()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder, ()))
        proxy = await stack.enter_async_context(proxying(_port(here)))
        for name in SERVICES:
            await here.start_service(name, {}, proxy.url)
        await here.await_ready(SERVICES)
        ledger = Ledger(folder / "ledger.jsonl")
        stack.callback(ledger.close)
        fleet = Fleet(8, ledger, interval_seconds=1.0)
        stack.push_async_callback(fleet.close)
        await fleet.start(proxy.url)
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        writing = asyncio.create_task(PolicyWriter(here, ledger, 1.0).run())
        stack.callback(writing.cancel)
        proxy.behaviour = Behaviour(latency_seconds=0.2, jitter_seconds=0.6, bytes_per_second=2_000_000)
        ages: list[float] = []
        watching = asyncio.create_task(_ages(here, ages))
        stack.callback(watching.cancel)
        assert fleet.through is not None
        cut = 0
        for _ in range(max(2, int(6 * strictness.scale))):
            await asyncio.sleep(8)
            cut += fleet.through.under_way
            proxy.reset()
        await asyncio.sleep(4)
        watching.cancel()
        _judge_retries(result, fleet.through, cut)
        writing.cancel()
        began = time.monotonic()
        proxy.heal()
        await fleet.hush()
        result.facts["seconds_until_the_fleet_has_said_all"] = round(time.monotonic() - began, 1)
        await here.settled(bus)
        result.recovery_seconds.append(time.monotonic() - began)
        result.findings = await audit(here, fleet, bus, telemetry_may_vanish=True)  # the stream keeps five minutes
        _judge_slow(result, fleet, ages, strictness)
        result.max_rss_bytes = max(here.memory.highest.values())
    return result


def _judge_retries(result: Result, through: LedgerBus, cut: int) -> None:
    """Checks the retries beyond the messages lost by resets, which must be sent again and are more than a tenth."""
    messages, again = len(through.tried), through.attempts - len(through.tried)
    result.facts["messages_sent"] = messages
    result.facts["sent_again"] = again
    result.facts["under_way_when_the_connection_was_reset"] = cut
    result.facts["attempts_without_a_connection"] = through.refused
    result.promise("no storm of retries: at most 10 % of the messages are sent again, beside those that a reset took",
                   again <= cut + (RETRIES - 1) * messages)  # fmt: skip


def _judge_slow(result: Result, fleet: Fleet, ages: Sequence[float], strictness: Strictness) -> None:
    result.facts["age_of_the_newest_report_p50_seconds"] = round(percentile(ages, 0.5), 2)
    result.facts["age_of_the_newest_report_p99_seconds"] = round(percentile(ages, 0.99), 2)
    result.facts["reports_dropped"] = fleet.dropped
    bound = 10.0 * strictness.patience
    result.promise(f"news is never older than {bound:g} s (p99)", percentile(ages, 0.99) <= bound)


async def _ages(here: Site, ages: list[float]) -> None:
    while True:
        age = await here.value("SELECT extract(epoch FROM now() - max(sampled_at))::float8 FROM ingestion.node_usage")
        if age is not None:
            ages.append(age)
        await asyncio.sleep(0.2)


def _port(here: Site) -> int:
    return int(here.broker.url.rsplit(":", 1)[1])
