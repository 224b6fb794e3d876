"""Every service but the agent over real PostgreSQL and NATS, in a thread, with a published story."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from tests.support.nats_server import purge_broker
from tests.support.story import story

from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.cli.composition import SHARED
from slackwater.cli.service_host import Databases
from slackwater.events.envelope import Event
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import new_id
from slackwater.model.time import SystemClock
from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.platform import Platform
from slackwater.runtime.rpc import RpcServer
from slackwater.runtime.service import Check, Service, SpeaksRpc
from slackwater.runtime.settings import HttpSettings, RpcSettings
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database
from slackwater.telemetry.metrics import Meters

TOKEN = "the-token-of-this-test-0123456789"  # noqa: S105 - of this test
ADMIN = {"Authorization": f"Bearer {TOKEN}"}

SHARES_RANDOM = pytest.mark.filterwarnings(
    "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
)
"""Hypothesis takes the pauses that the server draws in its thread for chance in a strategy."""
_TRIES, _AGAIN_SECONDS = 6, 1.0
_START_SECONDS, _LOOK_SECONDS = 120.0, 0.05
"""It takes five seconds, and once took more than thirty on a machine whose CPU was stolen."""


class WholeServer:
    """Every service but the agent, in a thread of its own, after the story was published."""

    def __init__(self, postgres: str, nats: str, state_dir: Path) -> None:
        self.postgres, self._nats, self._state_dir = postgres, nats, state_dir
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.url, self.rpc = "", ""
        self.methods: frozenset[str] = frozenset()
        """Every RPC, as `/package.Service/Method`."""
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="whole server")

    def __enter__(self) -> WholeServer:
        self._thread.start()
        assert self._ready.wait(2 * _START_SECONDS)
        if self.failure is not None:
            raise self.failure
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())  # which ends every task that is left, too
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the test
            self.failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        addresses = await prepare_database(self.postgres, [Schema.of(part.name) for part in SHARED if part.has_schema])
        databases = Databases(addresses)
        async with connect_bus(self._nats, name="conforms", declares=False) as bus:
            await purge_broker(bus)
            await bus.declare()
            platform = Platform(bus, SystemClock(), databases.of, self._state_dir)
            services = [part.build(platform) for part in SHARED]
            settings = HttpSettings(host="127.0.0.1", port=0, token=SecretStr(TOKEN))
            server = HttpServer(settings)
            app = build_app([r for s in services for r in s.routers()], _all_well, settings)
            started = {part.name: asyncio.Event() for part in SHARED}
            tasks = [
                asyncio.create_task(_kept_running(service, event.set), name=name)
                for service, (name, event) in zip(services, started.items(), strict=True)
            ]
            parts = [part for service in services if isinstance(service, SpeaksRpc) for part in service.rpc_parts()]
            rpc = RpcServer(RpcSettings(port=0), settings, parts, _all_well, Meters(CollectorRegistry()))
            started["grpc"] = asyncio.Event()
            tasks.append(asyncio.create_task(rpc.run(started["grpc"].set), name="grpc"))
            started["http"] = asyncio.Event()
            tasks.append(asyncio.create_task(server.run(app, started["http"].set), name="http"))
            await _all_up(started, tasks)
            for event in story(datetime.now(UTC))[-400:]:
                await _publish(bus, event)
            self.url, self.rpc, self.methods = server.url, rpc.address, rpc.methods
            self._ready.set()
            await self._stop.wait()
            for task in reversed(tasks):
                task.cancel()
            await asyncio.wait(tasks)
        await databases.close()


async def _kept_running(service: Service, ready: Callable[[], None]) -> None:
    """Run a service as the supervisor does: one whose server did not answer in time is run again."""
    while True:
        try:
            await service.run(ready)
        except Unavailable:
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            return


async def _publish(bus: NatsBus, event: Event[Any]) -> None:
    """Publish as every publisher does: what a busy machine did not confirm in time is published again; the broker drops
    what it had stored."""
    for _ in range(_TRIES - 1):
        try:
            await bus.publish(event)
        except Unavailable:
            continue
        return
    await bus.publish(event)


async def _all_up(started: Mapping[str, asyncio.Event], tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait until every service is ready; one that ended before, or never becomes ready, is named."""
    for _ in range(int(_START_SECONDS / _LOOK_SECONDS)):
        for task in tasks:
            if task.done():
                raise RuntimeError(f"{task.get_name()} ended before all were up") from task.exception()
        if all(event.is_set() for event in started.values()):
            return
        await asyncio.sleep(_LOOK_SECONDS)
    missing = [name for name, event in started.items() if not event.is_set()]
    raise TimeoutError(f"not up after {_START_SECONDS:g} s: {', '.join(missing)}")


async def _all_well() -> list[Check]:
    return [Check("here", True)]


@pytest.fixture(scope="module")
def server(postgres_dsn: str, nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeServer]:
    """A server on a database of its own: documents of one file are none of another's."""
    database = urlunsplit(urlsplit(postgres_dsn)._replace(path="/whole_" + new_id().replace("-", "")))
    with WholeServer(database, nats_url, tmp_path_factory.mktemp("state")) as running:
        yield running
