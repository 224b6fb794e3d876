"""The console's composition root."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog
from fastapi import APIRouter

from slackwater.console.adapters.feed import LocalFeed
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.edge.events import consuming
from slackwater.console.edge.html import html_router
from slackwater.console.edge.http import api_router
from slackwater.console.ports import Feed, ReadModel
from slackwater.console.settings import ConsoleSettings
from slackwater.console.usecases.keep_level import KeepLevel
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Check

log = structlog.get_logger(__name__)


class ConsoleService:
    """Consumes while it runs; its routes answer from the read model at any time."""

    name = "console"

    def __init__(self, settings: ConsoleSettings, platform: Platform, model: ReadModel, feed: Feed) -> None:
        self._platform = platform
        self._model = model
        self._feed = feed
        self._settings = settings
        self._record = RecordEvents(
            model,
            feed,
            platform.clock,
            usage_retention=timedelta(seconds=settings.usage_retention_seconds),
            decision_retention=timedelta(seconds=settings.decision_retention_seconds),
        )

    async def run(self, started: Callable[[], None]) -> None:
        """Consume until cancelled. Open streams end with it, so that a server can stop without waiting for them."""
        keeping = asyncio.create_task(self._keep_levels(), name="console levels")
        try:
            async with consuming(self._platform.bus, self._record):
                started()
                await asyncio.Event().wait()
        finally:
            keeping.cancel()
            self._feed.close()
            await asyncio.wait([keeping])

    async def _keep_levels(self) -> None:
        """A level that could not be kept is a hole in a chart, nothing more."""
        keep = KeepLevel(self._model, self._platform.clock)
        while True:
            await self._platform.clock.sleep(keep.seconds_to_next())
            try:
                await keep()
            except Unavailable as error:
                log.warning("the fleet's level was not kept", reason=error.message)

    async def checks(self) -> Sequence[Check]:
        """The read model answers."""
        well = await self._model.ping()
        return [Check("console-read-model", well, "" if well else "PostgreSQL does not answer")]

    def routers(self) -> Sequence[APIRouter]:
        return routers_of(self._model, self._feed, self._platform.clock, self._settings.heartbeat_seconds)


def routers_of(model: ReadModel, feed: Feed, clock: Clock, heartbeat_seconds: float = 15.0) -> list[APIRouter]:
    """The API and the pages over any read model. No I/O."""
    return [
        api_router(model, feed, clock, heartbeat_seconds=heartbeat_seconds),
        html_router(model, clock),
    ]


def build(settings: ConsoleSettings, platform: Platform) -> ConsoleService:
    """A console on PostgreSQL."""
    return ConsoleService(settings, platform, PostgresReadModel(platform.database("console")), LocalFeed())
