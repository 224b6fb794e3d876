"""One writer in memory: its store, its replica, and the agents that read its documents, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Generic

from tests.support.clock import FakeClock
from tests.support.store import MemoryDatabase

from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.intents.controls import Writer
from slackwater.intents.document import Content, is_older, is_renewable
from slackwater.intents.keyed_store import KeyedIntentStore
from slackwater.intents.leases import RenewLeases
from slackwater.intents.node_cache import NodeCache
from slackwater.intents.ports import IntentUnit, S
from slackwater.intents.reconciler import IntentReconciler
from slackwater.intents.writer import IntentWriter
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.store.keyed import KeyedTable

LEASE_SECONDS: Final = 15.0
SILENT_SECONDS: Final = 60.0


class Renewals:
    """slackwater.intents.ports.LeaseMeter: counts by result."""

    def __init__(self) -> None:
        self.results: list[str] = []

    def renewed(self, result: str) -> None:
        self.results.append(result)


@dataclass(slots=True)
class Held:
    """A document as an agent holds it, and when it was received and renewed (monotonic)."""

    document: IntentDeclared
    received: float
    renewed: float | None = None

    def is_alive(self, now: float) -> bool:
        return now - max(self.received, self.renewed or 0.0) < self.document.lease_seconds


@dataclass(slots=True)
class Agents:
    """The readers of all nodes: they keep the newest document of each writer, and renew leases by what they receive."""

    clock: FakeClock
    held: dict[tuple[str, str], Held] = field(default_factory=dict)
    reports: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    position: int = 0

    def report(self, node: str) -> int:
        """Publish a report; returns its position in the stream."""
        self.position += 1
        self.reports.setdefault(node, []).append((self.position, self.clock.monotonic()))
        return self.position

    def receive(self, document: IntentDeclared) -> bool:
        """Whether the document was accepted."""
        key = document.node, document.writer
        held = self.held.get(key)
        if held is not None and is_older(document, held.document):
            return False
        self.held[key] = Held(document, self.clock.monotonic())
        return True

    async def broadcast(self, event: Event[LeaseRenewed]) -> None:
        """slackwater.intents.ports.Broadcast."""
        now, renewed = self.clock.monotonic(), event.data
        for (node, writer), held in self.held.items():
            if writer != renewed.writer or partition_of(node) != renewed.partition or node in renewed.blocked:
                continue
            is_read = any(
                position <= renewed.read_up_to and now - at <= renewed.heard_within_seconds
                for position, at in self.reports.get(node, ())
            )
            if is_read and is_renewable(held.document, renewed.epoch):
                held.renewed = now

    def is_alive(self, node: str, writer: Writer) -> bool:
        held = self.held.get((node, writer.name))
        return held is not None and held.is_alive(self.clock.monotonic())


@dataclass
class Replica(Generic[S]):
    """One process of a writer, which owns all partitions under `epoch`."""

    writer: Writer
    database: MemoryDatabase
    table: KeyedTable[S]
    content: Callable[[S, datetime], Content]
    first: Callable[[str], S]
    clock: FakeClock
    agents: Agents
    epoch: int = 1
    blocked: tuple[str, ...] = ()
    waiting: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.meter = Renewals()
        self.nodes: NodeCache[S, IntentUnit[S]] = NodeCache(
            KeyedIntentStore(self.database, self.table), self.table.name
        )
        self.rows: dict[str, S] = self.database.rows(self.table)
        self.intents: IntentWriter[S, IntentUnit[S]] = IntentWriter(
            self.writer, self.nodes, self.content, self.clock, LEASE_SECONDS, lambda _: self.epoch, self.first
        )
        self.reconcile = IntentReconciler(self.intents, SILENT_SECONDS)
        self.renew = RenewLeases(
            self.writer,
            self.nodes.positions,
            self.clock,
            self.meter,
            self.agents,
            lambda: dict.fromkeys(ALL_PARTITIONS, self.epoch),
            self._waiting,
            LEASE_SECONDS,
            SILENT_SECONDS,
            lambda: self.blocked,
        )

    async def _waiting(self) -> Mapping[int, float]:
        return self.waiting

    async def start(self) -> None:
        """Take every partition, and declare its nodes under our epoch."""
        await self.nodes.acquire(ALL_PARTITIONS, self.clock.now())
        await self.reconcile.acquire(ALL_PARTITIONS)

    def read(self, node: str, position: int) -> None:
        self.nodes.positions.record(node, position)
        self.nodes.contacts.report(node, self.clock.now())

    def documents(self) -> list[IntentDeclared]:
        """Everything that this writer ever declared, in order of its commits."""
        return [event.data for event in self.database.published if isinstance(event.data, IntentDeclared)]


def by_generation(documents: Iterable[IntentDeclared]) -> dict[int, list[IntentDeclared]]:
    found: dict[int, list[IntentDeclared]] = {}
    for document in documents:
        found.setdefault(document.generation, []).append(document)
    return found
