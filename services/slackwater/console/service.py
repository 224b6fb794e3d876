"""The composition root of the console."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from fastapi import APIRouter

from slackwater.bus.admin.broker_admin import BrokerAdmin, ClosedAdmin, admin_of
from slackwater.bus.consume.agent_blocks import Blocks, blocks_of
from slackwater.console.adapters.demo_files import DemoFiles, NoDemo
from slackwater.console.adapters.offer_board import OfferBoard
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.edge.deadletters import deadletters_router
from slackwater.console.edge.demo import demo_router
from slackwater.console.edge.event_pages import event_pages
from slackwater.console.edge.events import consumers
from slackwater.console.edge.html import html_router
from slackwater.console.edge.http import api_router
from slackwater.console.edge.inventory import inventory_router
from slackwater.console.edge.loop import loop_router
from slackwater.console.edge.moves import moves_router
from slackwater.console.edge.quotas import quotas_router
from slackwater.console.edge.resources import resources_router
from slackwater.console.edge.strategies import strategies_router
from slackwater.console.edge.stream import Streams
from slackwater.console.metrics import ConsoleMetrics
from slackwater.console.ports import DemoRuns, ReadModel
from slackwater.console.settings import ConsoleSettings
from slackwater.console.usecases.fleet_level import FleetLevelRecorder
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.console.usecases.report_sampling import ReportSampling
from slackwater.console.usecases.senders import Senders
from slackwater.model.time import Clock
from slackwater.runtime.http_connections import stream_limit
from slackwater.runtime.loops import Repeat
from slackwater.runtime.platform import Platform
from slackwater.runtime.replicated import Replica, ReplicatedService
from slackwater.runtime.service import Check, RpcPart
from slackwater.runtime.settings import HttpSettings
from slackwater.telemetry.metrics import process_meters


class ConsoleService(ReplicatedService):
    """Consumes while it runs; its routes answer from the read model at any time."""

    def __init__(self, settings: ConsoleSettings, platform: Platform) -> None:
        replica = Replica("console", platform, sharded=False)
        bus, clock = replica.bus, replica.clock
        self.model = model = PostgresReadModel(replica.database, replica.quarantine)
        self._settings, self._clock = settings, clock
        self._offers = OfferBoard(bus, clock)
        beat, stall = settings.heartbeat_seconds, settings.stall_seconds
        most = min(settings.streams, stream_limit(HttpSettings()))
        streams = Streams(bus, clock, heartbeat_seconds=beat, stall_seconds=stall, most=most)
        usage = timedelta(seconds=settings.usage_retention_seconds)
        decisions = timedelta(seconds=settings.decision_retention_seconds)
        record = RecordEvents(model, clock, usage_retention=usage, decision_retention=decisions)
        meter = ConsoleMetrics(process_meters())
        demo = NoDemo() if settings.demo_state_dir is None else DemoFiles(settings.demo_state_dir)
        level = FleetLevelRecorder(model, clock, meter.level)

        async def keep_level() -> None:
            """Store the fleet's level. A failure leaves a gap in a chart and has no other effect."""
            with replica.quarantine.isolating("fleet_level", "now"):
                await level()

        super().__init__(
            replica,
            consumers=consumers(
                record, meter, clock, ReportSampling(clock, settings.reports_per_second, streams.shows_reports_of)
            ),
            loops={
                "offers": self._offers.run,
                "levels": Repeat(
                    work=keep_level,
                    clock=clock,
                    seconds=level.seconds_to_next,
                    pause_first=True,
                    missed="the fleet's level was not kept",
                ),
            },
            leaving=streams.close,
            dependencies=self._read_model_check,
            routers=lambda: routers_of(model, streams, clock, admin_of(bus), lambda: blocks_of(bus), demo),
        )

    async def _read_model_check(self) -> Sequence[Check]:
        answers = await self.model.ping()
        why = "" if answers else "PostgreSQL does not answer, or takes no writes"
        return [Check("console-read-model", answers, why)]

    def rpc_parts(self) -> Sequence[RpcPart]:
        """Implements slackwater.runtime.service.SpeaksRpc."""
        from slackwater.console.edge.rpc import Colocation, rpc_part  # imports grpc

        validity = timedelta(seconds=self._settings.offer_validity_seconds)
        return [rpc_part(Colocation(self.model, self._offers, self._clock, validity))]


def routers_of(
    model: ReadModel,
    streams: Streams,
    clock: Clock,
    desk: BrokerAdmin | None = None,
    blocks: Callable[[], Blocks] = Blocks,
    demo: DemoRuns | None = None,
) -> list[APIRouter]:
    """The API and the pages over any read model. No I/O."""
    desk = desk or ClosedAdmin()
    demo = demo or NoDemo()
    senders = Senders(desk, blocks, clock)
    return [
        api_router(model, streams, clock),
        deadletters_router(model, desk, clock),
        html_router(model, clock, desk, senders, demo),
        demo_router(demo, clock),
        strategies_router(model, clock),
        inventory_router(model, clock),
        quotas_router(model, clock),
        moves_router(model, clock),
        event_pages(model, clock),
        resources_router(model, clock),
        loop_router(model, desk, clock, senders),
    ]


def build(settings: ConsoleSettings, platform: Platform) -> ConsoleService:
    """A console on PostgreSQL."""
    return ConsoleService(settings, platform)
