"""Every service's real handlers on the bus and the stores in memory, opened as its composition root opens them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from slackwater.bus.handlers import Consumer
from slackwater.colocation.adapters.memory import MemoryColocationStore
from slackwater.colocation.adapters.one_strategy import OneStrategy
from slackwater.colocation.domain.strategy import Strategy
from slackwater.colocation.edge.events import ColocationEvents
from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.console.adapters.memory import MemoryReadModel
from slackwater.console.adapters.metrics import ConsoleMetrics
from slackwater.console.edge.events import consumers as console_consumers
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.ensurance.adapters.memory import MemoryGuardStore
from slackwater.ensurance.adapters.metrics import EnsuranceMetrics
from slackwater.ensurance.edge.events import consumers as ensurance_consumers
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.documents_in_force import KINDS, DocumentsInForce
from slackwater.ensurance.usecases.guard_node import GuardNode
from slackwater.ensurance.usecases.note_described import NoteDescribed
from slackwater.ensurance.usecases.note_evicted import NoteEvicted
from slackwater.ensurance.usecases.note_observed import NoteObserved
from slackwater.ingestion.adapters.memory import Books
from slackwater.ingestion.adapters.metrics import IngestionMetrics
from slackwater.ingestion.domain.validation import Limits
from slackwater.ingestion.edge.events import accepting
from slackwater.ingestion.edge.events import consumers as ingestion_consumers
from slackwater.ingestion.usecases.accept_reports import AcceptReports
from slackwater.ingestion.usecases.describe_node import DescribeNode
from slackwater.ingestion.usecases.tracing import WindowTraces
from slackwater.intents.controls import ENSURANCE
from slackwater.intents.writer import IntentWriter
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.prediction.adapters.memory import MemoryPredictionStore
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.edge.events import consumers as prediction_consumers
from slackwater.prediction.edge.events import windows_reader
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.publish_predictions import publish_predictions
from slackwater.prediction.usecases.shares import Shares
from slackwater.telemetry.metrics import Meters
from slackwater.testing.bus import MemoryBus
from slackwater.testing.clock import FakeClock
from slackwater.testing.resources import MemoryResourceStore
from slackwater.testing.store import MemoryDatabase

Opened = AbstractAsyncContextManager[object]
BATCH = 200


def everywhere(_: int) -> bool:
    return True


@asynccontextmanager
async def consuming(bus: MemoryBus, consumers: Sequence[Consumer[Any]]) -> AsyncIterator[None]:
    """All partitions of all consumers, as runtime.replicated opens them."""
    async with AsyncExitStack() as stack:
        for consumption in [await stack.enter_async_context(one.open(bus, everywhere)) for one in consumers]:
            await consumption.take(ALL_PARTITIONS)
        yield


@asynccontextmanager
async def ingestion(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[Books]:
    books, database = Books(), MemoryDatabase()
    meter = IngestionMetrics(Meters(CollectorRegistry()))
    accept = AcceptReports(database, books.ledgers(), clock, Limits(30, 900), meter)
    reports = accepting(accept, WindowTraces(60), clock)
    async with consuming(bus, ingestion_consumers(DescribeNode(database, books.ledgers()), reports, BATCH)):
        yield books


@asynccontextmanager
async def ensurance(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[Book]:
    settings, database = EnsuranceSettings(), MemoryDatabase()
    meter = EnsuranceMetrics(Meters(CollectorRegistry()))
    documents = DocumentsInForce({kind: MemoryResourceStore(kind.noun) for kind in KINDS}, settings.first_policy())
    book = Book(MemoryGuardStore(database), documents)
    intents = IntentWriter(ENSURANCE, book, book.content, clock, settings.lease_seconds)
    await book.load()
    handlers = (
        GuardNode(book, meter, intents, settings.max_report_age_seconds),
        NoteDescribed(book, intents),
        NoteObserved(book, intents),
        NoteEvicted(book, meter, intents),
    )
    async with consuming(bus, ensurance_consumers(book, *handlers)):
        yield book


@asynccontextmanager
async def prediction(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[Shares]:
    store, policy = MemoryPredictionStore(), PredictionSettings().policy(model_of)
    shares = Shares(store, policy, windows_reader(bus, lambda _: None), lambda _: None, lambda _: None)
    await shares.take(ALL_PARTITIONS)
    async with consuming(bus, prediction_consumers(shares)):
        try:
            yield shares
            for living in shares:
                await publish_predictions(living, clock)
        finally:
            for reader in shares.drop(ALL_PARTITIONS):
                await reader.aclose()


@asynccontextmanager
async def colocating(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[MemoryColocationStore]:
    store = MemoryColocationStore()
    events = ColocationEvents(Offering(store, OneStrategy(Strategy()), clock))
    async with consuming(bus, events.consumers()):
        yield store


@asynccontextmanager
async def console(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[MemoryReadModel]:
    model, days = MemoryReadModel(), timedelta(days=1)
    record = RecordEvents(model, clock, usage_retention=days, decision_retention=days)
    async with consuming(bus, console_consumers(record, ConsoleMetrics(Meters(CollectorRegistry())), clock)):
        yield model


SERVICES: dict[str, Callable[[MemoryBus, FakeClock], Opened]] = {
    "ingestion": ingestion,
    "prediction": prediction,
    "colocation": colocating,
    "ensurance": ensurance,
    "console": console,
}
