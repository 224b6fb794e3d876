"""What every process with services has, however many they are: databases, the one HTTP server, the supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI

from slackwater.cli.steps import Steps
from slackwater.model.time import SystemClock
from slackwater.runtime.collecting import collect_rarely
from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.service import Check, Service
from slackwater.runtime.settings import HttpSettings
from slackwater.runtime.supervisor import Supervisor
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.telemetry.metrics import note_build


class HttpService:
    """The HTTP server as a service: first to start, so that /livez answers early, last to stop."""

    name = "http"

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self.app: FastAPI | None = None

    async def run(self, started: Callable[[], None]) -> None:
        assert self.app is not None  # noqa: S101 - set by `hosting`, which makes both
        await self._server.run(self.app, started)

    async def checks(self) -> Sequence[Check]:
        return ()

    def routers(self) -> Sequence[APIRouter]:
        return ()


class Databases:
    """One small pool per service, made when its service asks."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._open: dict[str, PostgresDatabase] = {}
        self._clock = SystemClock()

    def of(self, service: str) -> PostgresDatabase:
        if service not in self._open:
            self._open[service] = connect_database(self._addresses[service], service, self._clock)
        return self._open[service]

    async def close(self) -> None:
        for database in self._open.values():
            await database.close()


@asynccontextmanager
async def hosting(
    http: HttpServer, settings: HttpSettings, services: Sequence[Service], steps: Steps, *, beside: Sequence[Service]
) -> AsyncIterator[None]:
    """HTTP first, then `beside`, then the services with their routes, all supervised while the context is open."""
    front = HttpService(http)
    supervisor = Supervisor([front, *beside, *services])
    routers = [router for service in services for router in service.routers()]
    front.app = build_app(routers, supervisor.checks, settings)
    for service in services:
        note_build(service.name)
    async with _supervised(supervisor, steps):
        collect_rarely()
        yield


@asynccontextmanager
async def _supervised(supervisor: Supervisor, steps: Steps) -> AsyncIterator[None]:
    """The supervisor runs in the background; should it fail, the block is cancelled and the failure raised."""
    ready = asyncio.Event()

    async def supervise() -> None:
        await supervisor.run(ready.set, on_ready=steps.done)

    with sole_failure():
        async with anyio.create_task_group() as group:
            group.start_soon(supervise)
            await ready.wait()
            yield
            group.cancel_scope.cancel()


@contextmanager
def sole_failure() -> Iterator[None]:
    """One failure comes out of a task group as itself: an operator is told what to do, not where it was awaited."""
    try:
        yield
    except BaseExceptionGroup as group:
        failure: BaseException = group
        while isinstance(failure, BaseExceptionGroup) and len(failure.exceptions) == 1:
            failure = failure.exceptions[0]
        if failure is group:
            raise
        raise failure from None


async def shielded(close: Callable[[], Any]) -> None:
    """Close, whatever cancellation is under way."""
    with anyio.CancelScope(shield=True):
        await close()
