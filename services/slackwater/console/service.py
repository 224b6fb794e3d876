"""The console's composition root."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from fastapi import APIRouter

from slackwater.bus.blocks import Blocks, blocks_of
from slackwater.bus.desk import ClosedDesk, Desk, desk_of
from slackwater.console.adapters.metrics import ConsoleMetrics
from slackwater.console.adapters.offer_board import OfferBoard
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.edge.deadletters import deadletters_router
from slackwater.console.edge.events import consuming
from slackwater.console.edge.html import html_router
from slackwater.console.edge.http import api_router
from slackwater.console.edge.loop import loop_router
from slackwater.console.edge.strategies import strategies_router
from slackwater.console.edge.stream import Streams
from slackwater.console.ports import Meter, ReadModel
from slackwater.console.settings import ConsoleSettings
from slackwater.console.usecases.keep_level import KeepLevel
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.console.usecases.senders import Senders
from slackwater.console.usecases.thinning import Thinning
from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.time import Clock
from slackwater.runtime.platform import Platform
from slackwater.runtime.quarantine_routes import quarantine_check, quarantine_router
from slackwater.runtime.service import Check, RpcPart
from slackwater.store.port import Relay
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored
from slackwater.store.quarantine_table import PostgresQuarantine
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters

log = get_logger(__name__)


class ConsoleService:
    """Consumes while it runs; its routes answer from the read model at any time."""

    name = "console"

    def __init__(
        self,
        settings: ConsoleSettings,
        platform: Platform,
        model: ReadModel,
        meter: Meter | None = None,
        quarantine: Quarantine | None = None,
        relay: Relay | None = None,
    ) -> None:
        """`quarantine` and `relay`: where rows that cannot be read are kept and told from; without them, in memory."""
        self.quarantine = quarantine or unstored(self.name)
        self._relay = relay
        self._meter = meter or ConsoleMetrics(process_meters())
        self._platform = platform
        self._model = model
        self._settings = settings
        self._offers = OfferBoard(platform.bus, platform.clock)
        self._streams = Streams(
            platform.bus,
            platform.clock,
            heartbeat_seconds=settings.heartbeat_seconds,
            stall_seconds=settings.stall_seconds,
            most=settings.streams,
        )
        self._record = RecordEvents(
            model,
            platform.clock,
            usage_retention=timedelta(seconds=settings.usage_retention_seconds),
            decision_retention=timedelta(seconds=settings.decision_retention_seconds),
        )

    async def run(self, started: Callable[[], None]) -> None:
        """Consume until cancelled. Open streams end first and with a word, so that nobody has to be cut off."""
        await self.quarantine.load()
        beside = [
            asyncio.create_task(self._keep_levels(), name="console levels"),
            asyncio.create_task(self.quarantine.run(), name="console quarantine"),
        ]
        if self._relay is not None:
            beside.append(asyncio.create_task(self._relay.run(), name="console outbox"))
        try:
            clock = self._platform.clock
            thinning = Thinning(clock, self._settings.reports_per_second)
            async with consuming(self._platform.bus, self._record, self._meter, clock, thinning):
                started()
                try:
                    await self._offers.run()
                finally:
                    self._streams.close()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)

    async def _keep_levels(self) -> None:
        """A level that could not be kept is a hole in a chart, nothing more."""
        keep = KeepLevel(self._model, self._platform.clock)
        while True:
            await self._platform.clock.sleep(keep.seconds_to_next())
            try:
                with self.quarantine.isolating("fleet_level", "now"):
                    await keep()
            except (Conflict, Unavailable) as error:
                log.warning("the fleet's level was not kept", reason=error.message)

    async def checks(self) -> Sequence[Check]:
        """The read model answers."""
        well = await self._model.ping()
        model = Check("console-read-model", well, "" if well else "PostgreSQL does not answer, or takes no writes")
        return [model, quarantine_check(self.quarantine)]

    def routers(self) -> Sequence[APIRouter]:
        bus = self._platform.bus
        pages = routers_of(self._model, self._streams, self._platform.clock, desk_of(bus), lambda: blocks_of(bus))
        return [*pages, quarantine_router(self.quarantine)]

    def rpc_parts(self) -> Sequence[RpcPart]:
        from slackwater.console.edge.rpc import Colocation, rpc_part  # loads grpc

        validity = timedelta(seconds=self._settings.offer_validity_seconds)
        return [rpc_part(Colocation(self._model, self._offers, self._platform.clock, validity))]


def routers_of(
    model: ReadModel,
    streams: Streams,
    clock: Clock,
    desk: Desk | None = None,
    blocks: Callable[[], Blocks] = Blocks,
) -> list[APIRouter]:
    """The API and the pages over any read model. No I/O."""
    desk = desk or ClosedDesk()
    senders = Senders(desk, blocks, clock)
    return [
        api_router(model, streams, clock),
        deadletters_router(model, desk, clock),
        html_router(model, clock, desk, senders),
        strategies_router(model, clock),
        loop_router(model, desk, clock, senders),
    ]


def build(settings: ConsoleSettings, platform: Platform) -> ConsoleService:
    """A console on PostgreSQL."""
    database = platform.database(ConsoleService.name)
    quarantine = Quarantine(ConsoleService.name, PostgresQuarantine(database, ConsoleService.name), platform.clock)
    model, relay = PostgresReadModel(database, quarantine), database.relay(platform.bus.carry)
    return ConsoleService(settings, platform, model, None, quarantine, relay)
