"""Synthetic nodes with a ledger: they describe themselves, report, and answer intents, as agents do.

They publish through the agent's own Outgoing (durable facts, reports in a bounded buffer), so its behaviour is tested.
Their measurements are synthetic, so that a small machine can run many nodes.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.faults.ledger import Key, Ledger, Outcome
from tests.faults.oracle import Applied
from tests.faults.site import harness_bus
from tests.support.reports import described, pod_usage, report

from slackwater.agent.edge.send_queue import Outgoing
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved, ObservedLimit
from slackwater.events.measures import PodUsage, Pressure
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import new_id
from slackwater.model.tiers import Tier
from slackwater.model.time import SystemClock

_IDS = uuid.UUID("b2f0a8a6-0a5e-5d5e-9c1c-6a0f6f1b7d11")
BUFFERED_REPORTS = 24
WATERLINE = 0.10
"""Waterline on the pressure of prod: a report above it is urgent, as with an agent."""


def report_key(node: str, epoch: str, sequence: int) -> Key:
    return Key("report", f"{node}|{epoch}|{sequence}")


def event_id(key: Key) -> str:
    """The event id, derived from the ledger's key, so that a stored event can be traced to its operation."""
    return str(uuid.uuid5(_IDS, f"{key.kind}/{key.name}"))


class LedgerBus:
    """A bus that records every publication and its outcome in the ledger."""

    def __init__(self, bus: NatsBus, ledger: Ledger) -> None:
        self._bus = bus
        self._ledger = ledger
        self.attempts = 0
        """Number of messages sent to the network; those refused without a connection are not counted."""
        self.refused = 0
        self.under_way = 0
        self.tried: set[Key] = set()
        self.acked = 0
        self.seconds: list[float] = []

    async def publish(self, event: Event[Any]) -> None:
        if isinstance(event.data, WaterlineCrossed):  # a copy of a report: the ledger has the report itself
            await self._bus.publish(event)
            return
        key = key_of(event)
        connected = self._bus.client.is_connected
        self.attempts += connected
        self.refused += not connected
        self.under_way += connected
        if connected:
            self.tried.add(key)
        began = time.monotonic()
        try:
            await self._bus.publish(event)
        except Unavailable:
            self._ledger.came(key, Outcome.UNKNOWN)
            raise
        finally:
            self.under_way -= connected
        self.seconds.append(time.monotonic() - began)
        self.acked += 1
        self._ledger.came(key, Outcome.ACKED)


def key_of(event: Event[Any]) -> Key:
    """The ledger's key of an event."""
    data = event.data
    if isinstance(data, UsageReported):
        return report_key(data.node, data.boot_epoch, data.sequence)
    return Key(data.TYPE, event.id)


@dataclass(slots=True)
class Node:
    """One synthetic node."""

    name: str
    outgoing: Outgoing
    epoch: str = field(default_factory=new_id)
    sequence: int = 0
    generations: dict[str, int] = field(default_factory=dict)


class Fleet:
    """`size` nodes over one connection. `applied` is the log of effects: intents in the order of execution."""

    def __init__(self, size: int, ledger: Ledger, interval_seconds: float = 1.0, prefix: str = "n") -> None:
        self.names = [f"{prefix}-{number:03d}" for number in range(size)]
        self.ledger = ledger
        self.interval = interval_seconds
        self.applied: list[Applied] = []
        self.nodes: dict[str, Node] = {}
        self.bus: NatsBus | None = None
        self.through: LedgerBus | None = None
        self._clock = SystemClock()
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._reporting: list[asyncio.Task[None]] = []

    async def start(self, url: str) -> None:
        self.bus = await self._stack.enter_async_context(harness_bus(url, "fleet"))
        self.through = LedgerBus(self.bus, self.ledger)
        for name in self.names:
            node = Node(name, Outgoing(self.through, self._clock, BUFFERED_REPORTS))  # type: ignore[arg-type] # publish is all it uses
            self.nodes[name] = node
            self._tasks.append(asyncio.create_task(node.outgoing.run()))
            self._describe(node)
        await self._stack.enter_async_context(self.bus.watch(IntentDeclared, self._intent))
        for number, node in enumerate(self.nodes.values()):
            self._reporting.append(asyncio.create_task(self._report_for_ever(node, number / len(self.names))))

    async def hush(self, seconds: float = 40.0) -> None:
        """Stop reporting and wait until the buffered messages are published."""
        for task in self._reporting:
            task.cancel()
        deadline = time.monotonic() + seconds
        while any(len(node.outgoing) for node in self.nodes.values()):
            if time.monotonic() > deadline:
                raise TimeoutError("the fleet could not publish its buffered messages")
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        for task in (*self._reporting, *self._tasks):
            task.cancel()
        await asyncio.gather(*self._reporting, *self._tasks, return_exceptions=True)
        await self._stack.aclose()

    @property
    def dropped(self) -> int:
        return sum(node.outgoing.dropped for node in self.nodes.values())

    def _describe(self, node: Node) -> None:
        now = self._clock.now()
        payload = described(node.name, now, cpu_milli=16000).model_copy(update={"boot_epoch": node.epoch})
        self._fact(node, "described", payload, now)

    def _fact(self, node: Node, key: str, payload: NodeDescribed | IntentObserved, now: datetime) -> None:
        event = event_of(payload, source=f"agent/{node.name}", time=now)
        self.ledger.meant(key_of(event))
        node.outgoing.fact(key, event)

    async def _report_for_ever(self, node: Node, offset: float) -> None:
        await asyncio.sleep(offset * self.interval)
        while True:
            self.report(node)
            await asyncio.sleep(self.interval)

    def report(self, node: Node) -> None:
        """Pass the next report of a node to its Outgoing."""
        node.sequence += 1
        key = report_key(node.name, node.epoch, node.sequence)
        self.ledger.meant(key)
        now = self._clock.now()
        data = report(node.name, node.sequence, now, boot_epoch=node.epoch, cpu_milli=9000, pods=_pods(node.name),
                      window_seconds=self.interval)  # fmt: skip
        waited = 0.5 * (1 + math.sin(now.timestamp() / 4 + len(node.name) + hash(node.name) % 7))
        pressure = Pressure(cpu_some_last=waited * 0.4, cpu_some_avg=waited * 0.4, cpu_some_max=waited * 0.4)
        trigger = "waterline" if waited * 0.4 > WATERLINE else "interval"
        data = data.model_copy(update={"prod_pressure": pressure, "trigger": trigger})
        node.outgoing.report(event_of(data, source=f"agent/{node.name}", time=now, id=event_id(key)))

    async def _intent(self, event: Event[IntentDeclared]) -> None:
        document = event.data
        node = self.nodes.get(document.node)
        if node is None or node.generations.get(document.writer, 0) == document.generation:
            return  # a renewal
        node.generations[document.writer] = document.generation
        content = document.model_dump_json(exclude={"declared_at"})
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        self.applied.append(Applied(node.name, document.writer, document.generation, digest))
        now = self._clock.now()
        limits = tuple(
            ObservedLimit(pod_uid=one.pod_uid, cpu_limit_milli=one.cpu_limit_milli, decision_id=one.decision_id)
            for one in document.throttles
        )
        seen = IntentObserved(node=node.name, writer=document.writer, generation=document.generation,
                              boot_epoch=node.epoch, received_at=now, observed_at=now, limits=limits)  # fmt: skip
        self._fact(node, f"observed/{document.writer}/{document.generation}", seen, now)


def _pods(node: str) -> list[PodUsage]:
    """Two prod pods and two batch pods."""
    parts = ((Tier.PROD, 3000), (Tier.PROD, 1500), (Tier.BATCH, 2500), (Tier.BATCH, 1500))
    return [pod_usage(f"{node}-{number}", tier, milli) for number, (tier, milli) in enumerate(parts)]
