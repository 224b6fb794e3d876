"""Every service's real handlers on the bus and the stores in memory, opened as its composition root opens them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta

from prometheus_client import CollectorRegistry

from slackwater.bus.port import Consumption, each
from slackwater.colocation.adapters.memory import MemoryColocationStore
from slackwater.colocation.adapters.one_strategy import OneStrategy
from slackwater.colocation.domain.strategy import Strategy
from slackwater.colocation.edge import events as colocation
from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.console.adapters.memory import MemoryReadModel
from slackwater.console.adapters.metrics import ConsoleMetrics
from slackwater.console.edge.events import consuming as console_consuming
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.ensurance.adapters.memory import MemoryGuardStore
from slackwater.ensurance.adapters.metrics import EnsuranceMetrics
from slackwater.ensurance.edge.events import consume_all
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.documents_in_force import KINDS, DocumentsInForce
from slackwater.ensurance.usecases.guard_node import GuardNode
from slackwater.ensurance.usecases.note_described import NoteDescribed
from slackwater.ensurance.usecases.note_evicted import NoteEvicted
from slackwater.ensurance.usecases.note_observed import NoteObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.ingestion.adapters.memory import Books
from slackwater.ingestion.adapters.metrics import IngestionMetrics
from slackwater.ingestion.domain.validation import Limits
from slackwater.ingestion.edge.events import consuming as ingestion_consuming
from slackwater.ingestion.usecases.accept_reports import AcceptReports
from slackwater.ingestion.usecases.describe_node import DescribeNode
from slackwater.ingestion.usecases.tracing import WindowTraces
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.prediction.adapters.memory import MemoryPredictionStore
from slackwater.prediction.edge.events import ON_DESCRIBED, WindowsOf, describing
from slackwater.prediction.service import model_of
from slackwater.prediction.settings import PredictionSettings
from slackwater.prediction.usecases.publish_predictions import publish_predictions
from slackwater.prediction.usecases.shares import Shares
from slackwater.prediction.usecases.state import LivingState
from slackwater.telemetry.metrics import Meters
from slackwater.testing.bus import MemoryBus
from slackwater.testing.clock import FakeClock
from slackwater.testing.resources import MemoryResourceStore
from slackwater.testing.store import MemoryDatabase

Opened = AbstractAsyncContextManager[object]
BATCH = 200


def everywhere(_: int) -> bool:
    return True


async def take_all(consumptions: Sequence[Consumption]) -> None:
    for consumption in consumptions:
        await consumption.take(ALL_PARTITIONS)


@asynccontextmanager
async def ingestion(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[Books]:
    books, database = Books(), MemoryDatabase()
    meter = IngestionMetrics(Meters(CollectorRegistry()))
    accept = AcceptReports(database, books.ledgers(), clock, Limits(30, 900), meter)
    describe = DescribeNode(database, books.ledgers())
    async with ingestion_consuming(bus, accept, describe, WindowTraces(60), BATCH, everywhere) as consumptions:
        await take_all(consumptions)
        yield books


@asynccontextmanager
async def ensurance(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[Book]:
    settings, database = EnsuranceSettings(), MemoryDatabase()
    meter, lease = EnsuranceMetrics(Meters(CollectorRegistry())), settings.lease_seconds
    documents = DocumentsInForce({kind: MemoryResourceStore(kind.noun) for kind in KINDS}, settings.first_policy())
    book = Book(MemoryGuardStore(database), documents)
    await book.load()
    async with AsyncExitStack() as stack:
        handlers = (
            GuardNode(book, clock, meter, lease, settings.max_report_age_seconds),
            NoteDescribed(book, clock, lease),
            NoteObserved(book, clock, lease),
            NoteEvicted(book, clock, meter, lease),
        )
        await take_all(await consume_all(stack, bus, everywhere, book, *handlers))
        yield book


@asynccontextmanager
async def prediction(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[Shares]:
    def reading(living: LivingState) -> AbstractAsyncContextManager[None]:
        handler = WindowsOf(living, lambda _: None)
        return bus.replay(UsageWindowed, handler, after_sequence=living.position, partition=living.partition)

    store, policy = MemoryPredictionStore(), PredictionSettings().policy(model_of)
    shares = Shares(store, policy, reading, lambda _: None, lambda _: None)
    async with bus.consume(NodeDescribed, ON_DESCRIBED, each(describing(shares)), holds=everywhere) as consumption:
        await shares.take(ALL_PARTITIONS)
        await consumption.take(ALL_PARTITIONS)
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
    events = colocation.ColocationEvents(Offering(store, OneStrategy(Strategy()), clock))
    async with (
        bus.consume(NodeDescribed, colocation.ON_DESCRIBED, events.on_described, holds=everywhere) as described,
        bus.consume(NodeLivenessChanged, colocation.ON_LIVENESS, events.on_liveness, holds=everywhere) as liveness,
        bus.consume(UsageWindowed, colocation.ON_USAGE, events.on_usage, holds=everywhere) as usage,
        bus.consume(PeakPredicted, colocation.ON_PEAKS, events.on_peaks, holds=everywhere) as peaks,
    ):
        await take_all((described, liveness, usage, peaks))
        yield store


@asynccontextmanager
async def console(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[MemoryReadModel]:
    model, days = MemoryReadModel(), timedelta(days=1)
    record = RecordEvents(model, clock, usage_retention=days, decision_retention=days)
    async with console_consuming(bus, record, ConsoleMetrics(Meters(CollectorRegistry())), clock):
        yield model


SERVICES: dict[str, Callable[[MemoryBus, FakeClock], Opened]] = {
    "ingestion": ingestion,
    "prediction": prediction,
    "colocation": colocating,
    "ensurance": ensurance,
    "console": console,
}
