"""An agent as its own process, cut off from the broker: prod surges, the agent acts alone; the line heals, and there is
one owner again who does nothing twice."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))
from proxy import proxying

from slackwater.bus.port import Bus, Done, Received, Settlement
from slackwater.ensurance.service import build
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.usage_reported import UsageReported
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database
from slackwater.testing.postgres_server import FreshDatabase

ROOT = Path(__file__).resolve().parents[2]
LEASE_SECONDS = 2.0
PATIENCE_SECONDS = 60.0


@dataclass
class Heard:
    """What goes over the broker."""

    decisions: list[DecisionRecorded] = field(default_factory=list)
    reports: list[UsageReported] = field(default_factory=list)
    observed: list[IntentObserved] = field(default_factory=list)

    async def decision(self, batch: list[Received[DecisionRecorded]]) -> list[Settlement]:
        self.decisions += [one.event.data for one in batch]
        return [Done() for _ in batch]

    async def report(self, batch: list[Received[UsageReported]]) -> list[Settlement]:
        self.reports += [one.event.data for one in batch]
        return [Done() for _ in batch]

    async def answer(self, batch: list[Received[IntentObserved]]) -> list[Settlement]:
        self.observed += [one.event.data for one in batch]
        return [Done() for _ in batch]

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
def agent(url: str, folder: Path) -> Iterator[None]:
    """The process, until the block ends."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'libs'}"}
    with (folder / "agent.log").open("wb") as log:
        program = [sys.executable, str(Path(__file__).with_name("cut_off_agent.py")), url, str(folder)]
        process = subprocess.Popen(program, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


@asynccontextmanager
async def ensurance(bus: Bus, fresh_database: FreshDatabase, folder: Path) -> AsyncIterator[None]:
    addresses = await fresh_database(["ensurance"])
    clock = SystemClock()
    database = connect_database(addresses["ensurance"], "ensurance", clock)
    settings = EnsuranceSettings(lease_seconds=LEASE_SECONDS, waterline=0.05)
    service = build(settings, Platform(bus, clock, lambda _: database, folder))
    ready = asyncio.Event()
    running = asyncio.create_task(service.run(ready.set))
    await ready.wait()
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])
        await database.close()


@pytest.mark.timeout(240)
async def test_cut_surge_heal(bus: Bus, nats_url: str, fresh_database: FreshDatabase, tmp_path: Path) -> None:
    heard = Heard()
    async with (
        bus.replay(DecisionRecorded, heard.decision, after_sequence=0),
        bus.replay(UsageReported, heard.report, after_sequence=0),
        bus.replay(IntentObserved, heard.answer, after_sequence=0),
        proxying(urlsplit(nats_url).port or 4222) as line,
        ensurance(bus, fresh_database, tmp_path),
    ):
        with agent(line.url, tmp_path):
            await until(lambda: bool(heard.observed), "the node has its first intent")
            line.partition()
            cut_at = datetime.now(UTC)
            await until(lambda: said(tmp_path, "alone"), "the lease has run out")
            (tmp_path / "surge").touch()
            await until(lambda: said(tmp_path, "decided alone"), "the agent acts on the surge")
            assert heard.of("agent") == [], "nothing gets through"
            healed_at = datetime.now(UTC)
            line.heal()
            await until(lambda: bool(heard.of("agent")), "what was decided alone is told")
            await until(lambda: heard.reports[-1].sampled_at > healed_at, "the node reports again")
            first = heard.of("agent")[0].record
            assert (first.kind, first.reason) == ("throttle", "throttle_waterline_crossed")
            assert cut_at < first.decided_at
            assert first.decided_at < healed_at
            await until(lambda: bool(heard.of("ensurance")), "ensurance decides again")
            owner_since = heard.of("ensurance")[-1].record.decided_at
            (tmp_path / "surge").unlink()
            await until(lambda: is_free(heard, owner_since), "every limit went back")
    assert events(tmp_path)[-1] == "no longer alone", "one owner: who was alone decides nothing any more"
    triggers = [one.record.trigger_event_id for one in heard.of("ensurance") if one.record.trigger_event_id]
    assert len(triggers) == len(set(triggers))


def events(folder: Path) -> list[str]:
    """What the agent's log tells of being alone: nothing else comes through."""
    lines = [json.loads(line) for line in (folder / "agent.log").read_text().splitlines() if line.endswith("}")]
    return [line["event"] for line in lines if "alone" in line["event"]]


def said(folder: Path, event: str) -> bool:
    return event in events(folder)


def is_free(heard: Heard, since: datetime) -> bool:
    last = heard.reports[-1]
    restored = any(one.record.kind == "restore" and one.record.decided_at > since for one in heard.of("ensurance"))
    return restored and all(pod.cpu_limit_milli == pod.original_cpu_limit_milli for pod in last.pods)
