"""A node as its own process behind a line that can be cut, ensurance on the same broker, and a reader of all events."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.faults.proxy import proxying
from tests.support.postgres_server import FreshDatabase

from slackwater.bus.port import Bus, Done, Received, Settlement
from slackwater.ensurance.service import EnsuranceService, build
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.agent_decision_recorded import AgentDecisionRecorded
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.usage_reported import UsageReported
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database

__all__ = ["proxying"]

ROOT = Path(__file__).resolve().parents[2]
LEASE_SECONDS = 2.0
PATIENCE_SECONDS = 60.0


@dataclass
class BrokerEvents:
    """The events that passed through the broker."""

    decisions: list[DecisionRecorded] = field(default_factory=list)
    reports: list[UsageReported] = field(default_factory=list)
    observed: list[IntentObserved] = field(default_factory=list)
    ended: list[EvictionCompleted] = field(default_factory=list)

    async def decision(self, batch: list[Received[Any]]) -> list[Settlement]:
        self.decisions += [one.event.data for one in batch]
        return [Done() for _ in batch]

    async def report(self, batch: list[Received[UsageReported]]) -> list[Settlement]:
        self.reports += [one.event.data for one in batch]
        return [Done() for _ in batch]

    async def answer(self, batch: list[Received[IntentObserved]]) -> list[Settlement]:
        self.observed += [one.event.data for one in batch]
        return [Done() for _ in batch]

    async def end(self, batch: list[Received[EvictionCompleted]]) -> list[Settlement]:
        self.ended += [one.event.data for one in batch]
        return [Done() for _ in batch]

    @asynccontextmanager
    async def listening(self, bus: Bus) -> AsyncIterator[None]:
        async with (
            bus.replay(DecisionRecorded, self.decision, after_sequence=0),
            bus.replay(AgentDecisionRecorded, self.decision, after_sequence=0),
            bus.replay(UsageReported, self.report, after_sequence=0),
            bus.replay(IntentObserved, self.answer, after_sequence=0),
            bus.replay(EvictionCompleted, self.end, after_sequence=0),
        ):
            yield

    def of(self, service: str) -> list[DecisionRecorded]:
        return [one for one in self.decisions if one.record.service == service]


async def until(met: Callable[[], bool], what: str) -> None:
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            while not met():
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"not within {PATIENCE_SECONDS:g} s: {what}")


@contextmanager
def agent(url: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process, until the block ends. Its log begins anew with it."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'libs'}"}
    with (folder / "agent.log").open("wb") as log:
        program = [sys.executable, str(Path(__file__).with_name("cut_off_agent.py")), url, str(folder)]
        process = subprocess.Popen(program, env=environment, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


@asynccontextmanager
async def ensurance(bus: Bus, fresh_database: FreshDatabase, folder: Path) -> AsyncIterator[EnsuranceService]:
    addresses = await fresh_database(["ensurance"])
    clock = SystemClock()
    database = connect_database(addresses["ensurance"], "ensurance", clock)
    settings = EnsuranceSettings(lease_seconds=LEASE_SECONDS, waterline=0.05, quota_after_seconds=0)
    service = build(settings, Platform(bus, clock, lambda _: database, folder))
    ready = asyncio.Event()
    running = asyncio.create_task(service.run(ready.set))
    await ready.wait()
    try:
        yield service
    finally:
        running.cancel()
        await asyncio.wait([running])
        await database.close()


def events(folder: Path) -> list[str]:
    """What the agent's log tells of being alone: nothing else comes through."""
    lines = [json.loads(line) for line in (folder / "agent.log").read_text().splitlines() if line.endswith("}")]
    return [line["event"] for line in lines if "alone" in line["event"]]


def said(folder: Path, event: str) -> bool:
    return event in events(folder)


def is_free(heard: BrokerEvents, since: datetime) -> bool:
    last = heard.reports[-1]
    restored = any(one.record.kind == "restore" and one.record.decided_at > since for one in heard.of("ensurance"))
    return restored and all(pod.cpu_limit_milli == pod.original_cpu_limit_milli for pod in last.pods)


def overlapping(heard: BrokerEvents) -> list[str]:
    """Decisions of an agent that were made when ensurance had begun to decide again after it: there must be none."""
    alone = [one.record for one in heard.of("agent")]
    if not alone:
        return []
    since = min(one.decided_at for one in alone)
    back = [one.record.decided_at for one in heard.of("ensurance") if one.record.decided_at > since]
    return [one.id for one in alone if back and one.decided_at > min(back)]
