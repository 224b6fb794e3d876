"""Parts of every process with services: databases, the one HTTP server, the supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import APIRouter, FastAPI

from slackwater.cli.steps import Steps
from slackwater.model.time import SystemClock
from slackwater.runtime.gc_tuning import tune_gc
from slackwater.runtime.health_reports import HealthReports
from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.service import Check, Service, SpeaksRpc
from slackwater.runtime.settings import HttpSettings, RpcSettings
from slackwater.runtime.supervisor import Supervisor
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.store.port import Backlog
from slackwater.telemetry.metrics import note_build

if TYPE_CHECKING:  # grpc is loaded only for a service that serves it
    from slackwater.runtime.rpc import RpcServer


@dataclass(frozen=True, slots=True)
class Hosted:
    """The result of hosting. `rpc_address` is HOST:PORT, None when nothing is served over gRPC."""

    rpc_address: str | None


class HttpService:
    """The HTTP server as a service: it starts first, so that /livez answers early, and stops last."""

    name = "http"

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self.app: FastAPI | None = None

    async def run(self, started: Callable[[], None]) -> None:
        assert self.app is not None  # noqa: S101 - set by `service_host`, which makes both
        await self._server.run(self.app, started)

    async def checks(self) -> Sequence[Check]:
        return ()

    def routers(self) -> Sequence[APIRouter]:
        return ()


class Databases:
    """One small connection pool per service, created when its service requests it."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._open: dict[str, PostgresDatabase] = {}
        self._clock = SystemClock()

    def of(self, service: str) -> PostgresDatabase:
        if service not in self._open:
            self._open[service] = connect_database(self._addresses[service], service, self._clock)
        return self._open[service]

    async def outbox(self, service: str) -> Backlog | None:
        """The outbox of a service that requested its database. Raises Unavailable."""
        return await self._open[service].backlog() if service in self._open else None

    def opened(self) -> Mapping[str, PostgresDatabase]:
        """The databases that were requested, by service."""
        return dict(self._open)

    async def close(self) -> None:
        for database in self._open.values():
            await database.close()


@asynccontextmanager
async def hosting(
    http: HttpServer,
    settings: HttpSettings,
    services: Sequence[Service],
    steps: Steps,
    *,
    beside: Sequence[Service],
    health: HealthReports | None = None,
    rpc: RpcSettings | None = None,
) -> AsyncIterator[Hosted]:
    """Run HTTP first, then `beside`, then the services with their routes, all supervised while the context is open.

    gRPC starts last if a service serves it and `rpc` (default: the environment) does not disable it.
    """
    front = HttpService(http)

    async def checks() -> Sequence[Check]:
        return await supervisor.checks()

    remote = _rpc_server(rpc or RpcSettings(), settings, services, checks)
    reporting = [health] if health else []
    supervisor = Supervisor([front, *beside, *reporting, *services, *([remote] if remote else [])])
    if health is not None:
        health.watch(supervisor.supervised)
    routers = [router for service in services for router in service.routers()]
    front.app = build_app(routers, supervisor.checks, settings, supervisor.unrecoverable)
    for service in services:
        note_build(service.name)
    async with _supervised(supervisor, steps):
        tune_gc()
        yield Hosted(remote.address if remote else None)


def _rpc_server(
    rpc: RpcSettings,
    settings: HttpSettings,
    services: Sequence[Service],
    checks: Callable[[], Awaitable[Sequence[Check]]],
) -> RpcServer | None:
    speaking = [service for service in services if isinstance(service, SpeaksRpc)]
    if not rpc.enabled or not speaking:
        return None
    from slackwater.runtime.rpc import RpcServer

    return RpcServer(rpc, settings, [part for service in speaking for part in service.rpc_parts()], checks)


@asynccontextmanager
async def _supervised(supervisor: Supervisor, steps: Steps) -> AsyncIterator[None]:
    """Run the supervisor in the background; if it fails, the block is cancelled and the failure raised."""
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
    """Raise the only failure of a task group as itself, so that the operator sees the remedy and not the task group."""
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
    """Run `close` even while a cancellation is pending."""
    with anyio.CancelScope(shield=True):
        await close()
