"""Many agents in one process, each with its own connection, watch, reports and answers.

`python -m tests.faults.herd --nats URL --first N --count N --folder DIR`
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tests.faults.fleet import event_id, report_key
from tests.faults.ledger import Key, Ledger, Outcome
from tests.support.reports import report

from slackwater.agent.edge.send_queue import Outgoing
from slackwater.bus.admin.streams import Topology, load
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.model.errors import Unavailable
from slackwater.model.time import SystemClock

REPORT_SECONDS = 10.0
AT_ONCE = 50


class Agent:
    """One agent. `log` gets a line per acknowledged message, with time and agent."""

    def __init__(self, name: str, bus: NatsBus, ledger: Ledger, log: int) -> None:
        self.name = name
        self._bus = bus
        self._ledger = ledger
        self._log = log
        self._clock = SystemClock()
        self._generation = 0
        self._sequence = 0
        self.outgoing = Outgoing(self, self._clock, 24)  # type: ignore[arg-type] # publish is all it uses

    async def publish(self, event: Event) -> None:  # type: ignore[type-arg] # any
        kept = isinstance(event.data, IntentObserved)
        await self._bus.publish(event)
        if kept:
            self._ledger.came(Key("intent.observed", event.id), Outcome.ACKED)
        os.write(self._log, f"{time.time():.3f} {self.name} {'fact' if kept else 'report'}\n".encode())

    async def intent(self, event: Event[IntentDeclared]) -> None:
        if event.data.generation <= self._generation:
            return
        self._generation = event.data.generation
        now = self._clock.now()
        seen = IntentObserved(node=self.name, writer=event.data.writer, generation=self._generation, boot_epoch="1",
                              received_at=now, observed_at=now)  # fmt: skip
        answer = event_of(seen, source=self.name, time=now)
        self._ledger.meant(Key("intent.observed", answer.id))
        self.outgoing.fact(f"observed/{self._generation}", answer)

    async def report_for_ever(self) -> None:
        await asyncio.sleep(random.uniform(0, REPORT_SECONDS))
        while True:
            self._sequence += 1
            now = self._clock.now()
            data = report(self.name, self._sequence, now)
            key = report_key(self.name, "boot-1", self._sequence)
            self.outgoing.report(event_of(data, source=self.name, time=now, id=event_id(key)))
            await asyncio.sleep(REPORT_SECONDS)


async def live(url: str, first: int, count: int, folder: Path) -> None:
    """Connect all agents, a few at a time, and run them until terminated."""
    ledger = Ledger(folder / f"herd-{first}.jsonl")
    log = os.open(folder / f"herd-{first}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    gate, topology = asyncio.Semaphore(AT_ONCE), load()
    async with asyncio.TaskGroup() as group:
        for number in range(first, first + count):
            group.create_task(_life(f"h-{number:04d}", url, topology, gate, ledger, log))


async def _life(name: str, url: str, topology: Topology, gate: asyncio.Semaphore, ledger: Ledger, log: int) -> None:
    async with AsyncExitStack() as stack:
        async with gate:
            bus = await _connected(stack, name, url, topology)
            agent = Agent(name, bus, ledger, log)
            await stack.enter_async_context(bus.watch(IntentDeclared, agent.intent, key=name))
        await asyncio.gather(agent.outgoing.run(), agent.report_for_ever())


async def _connected(stack: AsyncExitStack, name: str, url: str, topology: Topology) -> NatsBus:
    while True:
        try:
            return await stack.enter_async_context(
                connect_bus(url, name=name, topology=topology, declares=False, wait_seconds=10)
            )
        except Unavailable:
            await asyncio.sleep(random.uniform(0.1, 1.0))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nats", required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    asyncio.run(live(options.nats, options.first, options.count, options.folder))


if __name__ == "__main__":
    main()
