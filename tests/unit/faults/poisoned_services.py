"""Every service's real handlers on the bus and the stores in memory, opened as its composition root opens them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

from colocation_memory import answer_colocation
from prediction_memory import answer_snapshots
from prometheus_client import CollectorRegistry
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.ingestion.ledger import Books
from tests.support.scene import Scene
from tests.support.store import MemoryDatabase

from slackwater.bus.consume.handlers import Consumer
from slackwater.colocation.service import build as build_colocation
from slackwater.colocation.settings import ColocationSettings
from slackwater.console.edge.events import consumers as console_consumers
from slackwater.console.metrics import ConsoleMetrics
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.ensurance.service import build as build_ensurance
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ingestion.domain.validation import ReportLimits
from slackwater.ingestion.edge.events import accepting
from slackwater.ingestion.edge.events import consumers as ingestion_consumers
from slackwater.ingestion.metrics import IngestionMetrics
from slackwater.ingestion.usecases.accept_reports import AcceptReports
from slackwater.ingestion.usecases.describe_node import DescribeNode
from slackwater.ingestion.usecases.window_traces import WindowTraces
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.prediction.service import build as build_prediction
from slackwater.prediction.settings import PredictionSettings
from slackwater.telemetry.metrics import Meters

Opened = AbstractAsyncContextManager[object]
BATCH = 200


def everywhere(_: int) -> bool:
    return True


@asynccontextmanager
async def consuming(bus: MemoryBus, consumers: Sequence[Consumer[Any]]) -> AsyncIterator[None]:
    """All partitions of all consumers, as runtime.replicated opens them."""
    async with AsyncExitStack() as stack:
        for consumption in [await stack.enter_async_context(one.open(bus, everywhere)) for one in consumers]:
            await consumption.acquire(ALL_PARTITIONS)
        yield


@asynccontextmanager
async def ingestion(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[Books]:
    books, database = Books(), MemoryDatabase()
    meter = IngestionMetrics(Meters(CollectorRegistry()))
    accept = AcceptReports(database, books.ledgers(), clock, ReportLimits(30, 900), meter)
    reports = accepting(accept, WindowTraces(60), clock)
    async with consuming(bus, ingestion_consumers(DescribeNode(database, books.ledgers()), reports, BATCH)):
        yield books


def in_memory(bus: MemoryBus, clock: FakeClock) -> Scene:
    return Scene(clock, bus, {"colocation": answer_colocation, "prediction": answer_snapshots})


def ensurance(bus: MemoryBus, clock: FakeClock) -> Opened:
    return in_memory(bus, clock).running(build_ensurance, EnsuranceSettings())


def prediction(bus: MemoryBus, clock: FakeClock) -> Opened:
    return in_memory(bus, clock).running(build_prediction, PredictionSettings())


def colocation(bus: MemoryBus, clock: FakeClock) -> Opened:
    return in_memory(bus, clock).running(build_colocation, ColocationSettings())


@asynccontextmanager
async def console(bus: MemoryBus, clock: FakeClock) -> AsyncIterator[MemoryReadModel]:
    model, days = MemoryReadModel(), timedelta(days=1)
    record = RecordEvents(model, clock, usage_retention=days, decision_retention=days)
    async with consuming(bus, console_consumers(record, ConsoleMetrics(Meters(CollectorRegistry())), clock)):
        yield model


SERVICES: dict[str, Callable[[MemoryBus, FakeClock], Opened]] = {
    "ingestion": ingestion,
    "prediction": prediction,
    "colocation": colocation,
    "ensurance": ensurance,
    "console": console,
}
