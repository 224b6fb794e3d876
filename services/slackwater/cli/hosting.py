"""What every process with services has, however many they are: databases, the one HTTP server, the supervisor."""

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
from slackwater.runtime.collecting import collect_rarely
from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.service import Check, Service, SpeaksRpc
from slackwater.runtime.settings import HttpSettings, RpcSettings
from slackwater.runtime.supervisor import Supervisor
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.telemetry.metrics import note_build

if TYPE_CHECKING:  # grpc is loaded only where a service speaks it
    from slackwater.runtime.rpc import RpcServer


@dataclass(frozen=True, slots=True)
class Hosted:
    """What became of it. `rpc_address` is HOST:PORT, None when nothing is served over gRPC."""

    rpc_address: str | None


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

    def opened(self) -> Mapping[str, PostgresDatabase]:
        """Those that were asked for, by service."""
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
    rpc: RpcSettings | None = None,
) -> AsyncIterator[Hosted]:
    """HTTP first, then `beside`, then the services with their routes, all supervised while the context is open.

    gRPC comes last where a service speaks it and `rpc` (default: the environment) does not switch it off.
    """
    front = HttpService(http)

    async def checks() -> Sequence[Check]:
        return await supervisor.checks()

    remote = _rpc_server(rpc or RpcSettings(), settings, services, checks)
    supervisor = Supervisor([front, *beside, *services, *([remote] if remote else [])])
    routers = [router for service in services for router in service.routers()]
    front.app = build_app(routers, supervisor.checks, settings)
    for service in services:
        note_build(service.name)
    async with _supervised(supervisor, steps):
        collect_rarely()
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
