"""Latency from a report above its waterline to the declared intent, at 2,000 reports per second.

2,000 nodes of 30 pods report every second to ensurance; ensurance, broker and PostgreSQL are separate processes. One
report of two hundred is above the default waterline: it is also sent as waterline.crossed, its pods are throttled, and
this process answers as the agent. Restores follow and are not in the figure. The time is measured from the hand-over of
the report to the broker until the resulting intent (`ce-causedby`, through the decision) reaches a subscriber of the
stream's subjects; it was committed before.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
from nats.aio.msg import Msg
from tests.bench.control_plane import ControlPlane, control_plane, load
from tests.bench.figures import spread
from tests.bench.ingestion import describe
from tests.bench.load import fleet
from tests.bench.verdict import Scale, Target

from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.events.envelope import event_of
from slackwater.events.intent_observed import IntentObserved, ObservedLimit

NODES, INTERVAL_SECONDS, EVERY = 2000, 1.0, 200
TARGET_MILLISECONDS, TARGET_CORES = 50.0, 1.0
_WARM_SECONDS, _LAST_INTENTS_SECONDS = 10.0, 3.0
_NUMBER = re.compile(r"[0-9a-f-]{24}([0-9a-f]{12})")
"""The generator's counter is the last part of its ids."""
_KNOWN = "SELECT count(*) FROM ensurance.guarded_nodes"


@dataclass(frozen=True, slots=True)
class Intent:
    """An intent: the decision event that caused it, and the times of its declaration and arrival."""

    decision: str
    declared_at: float
    heard_at: float


@dataclass(slots=True)
class ReceivedIntents:
    """Events that arrived from the bus."""

    reports: dict[str, str] = field(default_factory=dict)
    """The report that caused a decision, by event id of the decision."""
    intents: list[Intent] = field(default_factory=list)

    def by_report(self) -> Iterator[tuple[int, Intent]]:
        """Yields the number of each report with its intent."""
        for one in self.intents:
            number = _NUMBER.fullmatch(self.reports.get(one.decision, ""))
            if number is not None:
                yield int(number[1], 16), one


def measure(directory: Path, *, seconds: float = 60.0) -> dict[str, Any]:
    """Measures the figure; see the module docstring."""
    return asyncio.run(_measure(directory, seconds))


async def _measure(directory: Path, seconds: float) -> dict[str, Any]:
    heard, ledger_file = ReceivedIntents(), directory / "ledger.json"
    async with control_plane(directory, ["ensurance"]) as plane:
        await describe(plane, NODES, _KNOWN)
        options = ("--nodes", NODES, "--interval", INTERVAL_SECONDS, "--every", EVERY)
        length = ("--seconds", seconds + _WARM_SECONDS, "--times")
        async with answering(plane, heard), load(plane, ledger_file, *map(str, options + length)) as generator:
            await asyncio.sleep(_WARM_SECONDS)
            before, began, began_at = plane.read(), time.monotonic(), time.time()
            await asyncio.sleep(seconds - 2)
            after, span = plane.read(), time.monotonic() - began
            await generator.wait()
            await asyncio.sleep(_LAST_INTENTS_SECONDS)
        ledger = json.loads(ledger_file.read_text())
    cores = {name: round((after[name].cpu_seconds - before[name].cpu_seconds) / span, 3) for name in before}
    found = judged(heard, ledger, began_at, began_at + span)
    return {
        **found,
        "nodes": NODES,
        "pods": 30,
        "reports_per_second": round(ledger["published"] / ledger["seconds"]),
        "cores": cores,
        "memory_mb": {name: round(reading.memory_mb) for name, reading in after.items()},
        "generator_worst_lag_seconds": round(ledger["worst_lag_seconds"], 3),
        "targets": targets(found, cores["ensurance"]),
    }


def judged(heard: ReceivedIntents, ledger: dict[str, Any], since: float, until: float) -> dict[str, Any]:
    """Milliseconds of every crossing sent in the span, in total and by step, for its first intent."""
    firsts: dict[int, Intent] = {}
    for number, intent in heard.by_report():
        firsts.setdefault(number, intent)
    crossed = [int(number) for number in ledger["crossed"] if since <= ledger["sent_at"][int(number)] <= until]
    answered = [number for number in crossed if number in firsts]
    sent, stored, told = ledger["sent_at"], ledger["stored_at"], ledger["crossed"]
    steps = {
        "handed to intent": [firsts[n].heard_at - sent[n] for n in answered],
        "stored to intent": [firsts[n].heard_at - at for n in answered if (at := stored[str(n)]) is not None],
        "handed to stored as a crossing": [at - sent[n] for n in answered if (at := told[str(n)]) is not None],
        "handed to decision": [firsts[n].declared_at - sent[n] for n in answered],
        "decision to intent": [firsts[n].heard_at - firsts[n].declared_at for n in answered],
    }
    found = {name: spread([1000 * one for one in seconds], digits=1) for name, seconds in steps.items()}
    return {
        "report_to_intent_milliseconds": found["handed to intent"],
        "steps_milliseconds": found,
        "crossing": f"one report of {EVERY}",
        "crossed": len(crossed),
        "unanswered": len(crossed) - len(answered),
    }


def targets(found: dict[str, Any], cores: float) -> tuple[Target, ...]:
    """The targets. The load is fixed, so the limit of the CPU time per report follows the speed of the machine."""
    p99 = found["report_to_intent_milliseconds"]["p99"]
    return (
        Target("report to intent p99", p99, TARGET_MILLISECONDS, "ms", Scale.TIME),
        Target("unanswered", found["unanswered"], 0),
        Target("ensurance", cores, TARGET_CORES, "core", Scale.TIME),
    )


@asynccontextmanager
async def answering(plane: ControlPlane, heard: ReceivedIntents) -> AsyncIterator[None]:
    """Record decisions and intents, and answer each new intent as the agent of its node does."""
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(connect_bus(plane.nats_url, name="bench-agents", declares=False))
        client = await nats.connect(plane.nats_url)
        stack.push_async_callback(client.close)

        async def decision(message: Msg) -> None:
            headers = message.headers or {}
            heard.reports[headers["ce-id"]] = headers.get("ce-causedby", "")

        async def intent(message: Msg) -> None:
            at, headers = time.time(), message.headers or {}
            if "ce-causedby" not in headers:
                return  # a lease renewed
            told = json.loads(message.data)
            declared_at = datetime.fromisoformat(told["declared_at"]).timestamp()
            heard.intents.append(Intent(headers["ce-causedby"], declared_at, at))
            await _observe(bus, told, headers["ce-id"])

        await client.subscribe("sw.v1.decision.recorded.>", cb=decision, pending_bytes_limit=256 * 2**20)
        await client.subscribe("sw.v1.intent.declared.>", cb=intent, pending_bytes_limit=256 * 2**20)
        await client.flush()
        yield


async def _observe(bus: NatsBus, told: dict[str, Any], cause: str) -> None:
    now = datetime.now(UTC)
    limits = tuple(
        ObservedLimit(pod_uid=one["pod_uid"], cpu_limit_milli=one["cpu_limit_milli"], decision_id=one["decision_id"])
        for one in told["throttles"]
    )
    observed = IntentObserved(
        node=told["node"],
        writer=told["writer"],
        generation=told["generation"],
        boot_epoch=fleet.BOOT,
        received_at=now,
        observed_at=now,
        limits=limits,
    )
    await bus.publish(event_of(observed, source=f"agent/{told['node']}", time=now, causedby=cause))
