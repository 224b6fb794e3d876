"""Ten times the sustainable load: throughput is kept, urgent reports go first, queues stay bounded."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults.flood import node_name
from tests.faults.oracle import Findings
from tests.faults.scenario import Result, Strictness, percentile
from tests.faults.site import Site, harness_bus, site
from tests.faults.supervisor import REPOSITORY, busy_seconds, cpu_seconds, python_path, until
from tests.support.reports import described, pod_usage, report

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.measures import Pressure
from slackwater.events.waterline_crossed import crossing_of
from slackwater.model.errors import Unavailable
from slackwater.model.tiers import Tier

NODES = 400
STEPS = (500.0, 1000.0, 2000.0, 4000.0)
"""Rates in reports per second that are tested to find the peak."""
FACTOR = 10
PROBES = 30
LEAST_GOODPUT = 0.9
URGENT_SECONDS = 1.0
NORMAL_SECONDS = 10.0
CALM_SECONDS = 0.5
AS_IN_LIFE = {"SLACKWATER_INGESTION_WINDOW_SECONDS": "60"}
"""Windows of 2 s, as in other scenarios, would be 200 per second: a load that does not depend on the offered rate."""
STREAM_BYTES, SERVICE_BYTES = 70 * 2**20, 400 * 2**20


@dataclass(slots=True)
class Urgent:
    """Nodes that cross their waterline once each; measures the time until ensurance declares an intent."""

    bus: NatsBus
    sent: dict[str, float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    decided: dict[str, float] = field(default_factory=dict)
    """Until ensurance had the report; the rest of `took` is its commit, its outbox and the way back."""
    told: list[float] = field(default_factory=list)
    """Until the broker had the crossing."""
    stored: list[float] = field(default_factory=list)
    """Until it had the report itself."""
    unconfirmed: list[str] = field(default_factory=list)
    """Reports that the broker did not confirm in time; an agent would send them again."""

    async def describe(self, names: list[str]) -> None:
        for name in names:
            now = datetime.now(UTC)
            await self.bus.publish(event_of(described(name, now, cpu_milli=8000), source=name, time=now))

    async def cross(self, name: str) -> None:
        """Publish an urgent report."""
        now = datetime.now(UTC)
        pods = [pod_usage(f"{name}-a", Tier.PROD, 3000), pod_usage(f"{name}-b", Tier.BATCH, 4000)]
        pressure = Pressure(cpu_some_last=0.6, cpu_some_avg=0.6, cpu_some_max=0.6)
        data = report(name, 1, now, cpu_milli=7500, pods=pods).model_copy(
            update={"prod_pressure": pressure, "trigger": "waterline"}
        )
        event = event_of(data, source=name, time=now)
        crossing = crossing_of(event)
        assert crossing is not None
        self.sent[name] = time.monotonic()
        await asyncio.gather(self._publish(crossing, self.told), self._publish(event, self.stored))

    async def _publish(self, event: Event[Any], seconds: list[float]) -> None:
        began = time.monotonic()
        try:
            await self.bus.publish(event)
        except Unavailable as error:
            self.unconfirmed.append(error.message)
        seconds.append(time.monotonic() - began)

    async def declared(self, event: Event[IntentDeclared]) -> None:
        name = event.data.node
        if name in self.sent and event.data.throttles:
            self.took.setdefault(name, time.monotonic() - self.sent[name])
            ago = (datetime.now(UTC) - event.data.declared_at).total_seconds()
            self.decided.setdefault(name, self.took[name] - ago)


async def overload(folder: Path, strictness: Strictness) -> Result:
    """Find the peak rate, offer ten times as much, and judge the result."""
    result = Result()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site(folder, ("ingestion", "ensurance"), environment=AS_IN_LIFE))
        bus = await stack.enter_async_context(harness_bus(here.broker.url))
        urgent = Urgent(bus)
        await stack.enter_async_context(bus.watch(IntentDeclared, urgent.declared))
        probes = [f"urgent-{number:02d}" for number in range(PROBES)]
        await urgent.describe([*probes, *(node_name(number) for number in range(NODES))])
        await here.settled(bus)
        result.facts["broker_on_a_core_of_its_own"] = _part(here)
        peak = 0.0
        for rate in STEPS:
            step = await _offer(here, folder, rate, 5)
            result.facts[f"at {rate:g} a second"] = step.facts
            peak = max(peak, step.goodput)
            if step.goodput < 0.7 * step.offered:
                break
        await _calm(here)
        crossing = asyncio.create_task(_cross_all(urgent, probes, 0.4))
        stack.callback(crossing.cancel)
        under = await _offer(here, folder, FACTOR * peak, 14)
        ended = time.monotonic()
        result.facts |= {"peak_goodput_per_second": round(peak), "under overload": under.facts}
        result.promise("ten times the peak was really offered", under.offered >= 0.9 * FACTOR * peak)
        await crossing
        await _judge_queues(result, here, bus)
        await _calm(here)
        result.recovery_seconds.append(time.monotonic() - ended - CALM_SECONDS)
        _judge(result, urgent, peak, under.goodput, strictness)
        result.findings = await _gaps(result, here)
    return result


def _judge(result: Result, urgent: Urgent, peak: float, good: float, strictness: Strictness) -> None:
    share = good / peak if peak else 0.0
    least = LEAST_GOODPUT if strictness.patience == 1 else LEAST_GOODPUT / 2
    result.facts["goodput_share_of_peak"] = round(share, 3)
    result.promise(f"goodput is at least {least:.0%} of its peak", share >= least)
    took = sorted(urgent.took.values())
    stages = {"": took, "_told": urgent.told, "_stored": urgent.stored, "_decided": list(urgent.decided.values())}
    for stage, seconds in stages.items():
        ordered = sorted(seconds)
        result.facts[f"urgent{stage}_p50_seconds"] = round(percentile(ordered, 0.5), 3)
        result.facts[f"urgent{stage}_p99_seconds"] = round(percentile(ordered, 0.99), 3)
    result.facts["urgent_unconfirmed"] = urgent.unconfirmed
    result.facts["urgent_answered"] = f"{len(took)} of {PROBES}"
    bound = URGENT_SECONDS * strictness.patience
    result.promise(f"a crossed waterline is answered within {bound:g} s (p99)",
                   len(took) == PROBES and percentile(took, 0.99) <= bound)  # fmt: skip
    bound = NORMAL_SECONDS * strictness.patience
    result.promise(f"normal operation within {bound:g} s", result.recovery_seconds[0] <= bound)


def _part(here: Site) -> bool:
    """Pin the broker to one core and services and PostgreSQL to the others, for peak and flood alike, because load
    shedding is judged and not the broker's cost of the flood."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 or here.broker.pid is None:
        return False
    _pin(here.broker.pid, {cores[0]})
    for program in here.programs.values():
        _pin(program.pid, set(cores[1:]))
    for pid in here.database._server_pids():
        _pin(pid, set(cores[1:]))
    return True


def _pin(pid: int, cores: set[int]) -> None:
    """Pin every thread of a process."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            os.sched_setaffinity(int(thread.name), cores)


async def _cross_all(urgent: Urgent, probes: list[str], every: float) -> None:
    """Publish on schedule, without waiting for confirmations."""
    await asyncio.sleep(1.5)
    async with asyncio.TaskGroup() as tasks:
        for name in probes:
            tasks.create_task(urgent.cross(name))
            await asyncio.sleep(every)


@dataclass(frozen=True, slots=True)
class Offered:
    """The result of a time at one rate, per second. `ours` is the share of the services' cores that other processes
    left; throughput per share is comparable on a shared machine."""

    offered: float
    handled: float
    ours: float
    cores: dict[str, float]

    @property
    def goodput(self) -> float:
        return min(self.offered, self.handled / self.ours)

    @property
    def facts(self) -> dict[str, object]:
        own = self.cores["ingestion"] + self.cores["postgresql"]
        return {
            "offered_per_second": round(self.offered),
            "handled_per_second": round(self.handled),
            "share_of_the_services_cores_not_taken_by_strangers": round(self.ours, 2),
            "goodput_per_second": round(self.goodput),
            "microseconds_per_report": round(1e6 * own / self.handled) if self.handled else None,
            "cores_used": {name: round(used, 2) for name, used in self.cores.items()},
        }


async def _offer(here: Site, folder: Path, rate: float, seconds: float) -> Offered:
    """Offer a rate; the first second is not counted."""
    command = [sys.executable, "-m", "tests.faults.flood", "--nats", here.broker.url, "--rate", str(rate), "--seconds",
               str(seconds), "--nodes", str(NODES), "--state", str(folder / "flood.json")]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": python_path()}
    process = await asyncio.create_subprocess_exec(*command, env=environment, cwd=REPOSITORY,
                                                   stdout=asyncio.subprocess.PIPE)  # fmt: skip
    cores = sorted(os.sched_getaffinity(0))
    _pin(process.pid, {cores[0]})
    before = await _accepted(here)
    while await _accepted(here) == before and process.returncode is None:
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    used, busy = _cpu(here, process.pid), busy_seconds(cores[1:])
    first, began = await _accepted(here), time.monotonic()
    await asyncio.sleep(seconds - 2.5)
    took = time.monotonic() - began
    handled = (await _accepted(here) - first) / took
    after = _cpu(here, process.pid)
    share = {name: (after[name] - used[name]) / took for name in after}
    strangers = (busy_seconds(cores[1:]) - busy) / took - sum(share[name] for name in (*here.programs, "postgresql"))
    said, _ = await process.communicate()
    there = len(cores) - 1
    return Offered(
        int(said) / seconds, handled, min(1.0, max(0.05, (there - strangers) / there)) if there else 1.0, share
    )


def _cpu(here: Site, generator: int) -> dict[str, float]:
    """CPU seconds so far of the generator, the broker, the services, PostgreSQL and this process."""
    groups = {"generator": [generator], "nats-server": [here.broker.pid or 0], "judge": [os.getpid()]}
    groups |= {name: [program.pid] for name, program in here.programs.items()}
    groups["postgresql"] = list(here.database._server_pids())
    return {name: sum(map(cpu_seconds, pids)) for name, pids in groups.items()}


async def _accepted(here: Site) -> float:
    """Accepted reports, from the service's own counter, because a query over all rows would add load."""
    text = (await here.http.get(here.url("ingestion", "/metrics"), timeout=20)).text
    for line in text.splitlines():
        if line.startswith("slackwater_ingestion_reports_accepted_total "):
            return float(line.split()[1])
    return 0.0


async def _calm(here: Site) -> None:
    """Wait until the queue has been empty for CALM_SECONDS."""
    before = -1.0
    while (now := await _accepted(here)) != before:
        before = now
        await asyncio.sleep(CALM_SECONDS)
    await until(lambda: here.ready("ingestion"), 60, "ingestion is ready")


async def _judge_queues(result: Result, here: Site, bus: NatsBus) -> None:
    usage = (await bus.jetstream.stream_info("USAGE")).state
    result.facts["usage_stream_bytes"] = usage.bytes
    result.promise("the stream is bounded", usage.bytes <= STREAM_BYTES)
    highest = here.memory.highest
    result.max_rss_bytes = max(highest.values())
    result.facts["max_rss_bytes"] = dict(highest)
    result.promise("the services' memory is bounded", max(highest["ingestion"], highest["ensurance"]) <= SERVICE_BYTES)
    died = {name: program.unasked_exits for name, program in here.programs.items() if program.unasked_exits}
    result.promise("no service died", not died)


async def _gaps(result: Result, here: Site) -> Findings:
    """Reports that the stream dropped are missing, and every missing report has been counted as a gap."""
    rows = await here.rows(
        "SELECT n.name, n.gaps, max(u.sequence) AS newest, count(*) AS kept, count(DISTINCT u.sequence) AS once"
        " FROM ingestion.nodes n JOIN ingestion.node_usage u ON u.node = n.name"
        " WHERE n.name LIKE 'flood-%' GROUP BY 1, 2"
    )
    missing = sum(row["newest"] - row["once"] for row in rows)
    wrong = sum(abs(row["newest"] - row["once"] - row["gaps"]) for row in rows)
    result.facts["nodes_heard"] = len(rows)
    result.promise("no node is left out", len(rows) == NODES)
    return Findings(
        offered=sum(row["newest"] for row in rows), acked=sum(row["once"] for row in rows), gaps=missing,
        gaps_unaccounted=wrong, duplicates=sum(row["kept"] - row["once"] for row in rows),
    )  # fmt: skip
