"""Reads the data of a stopped instance: starts its PostgreSQL for one request, and stops it again.

The request uses the same application as over HTTP, in this process, so that the answers are the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import httpx2
from fastapi import FastAPI

from slackwater.agent.edge.late_bus import LateBus
from slackwater.client.answers import Params, answer_of, given
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.edge.stream import Streams
from slackwater.console.service import routers_of
from slackwater.model.errors import InvalidInput
from slackwater.model.time import SystemClock
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database

SERVICE = "console"


@dataclass(frozen=True, slots=True)
class OfflineReader:
    """Answers from the recorded read model; it has no new events."""

    runner: asyncio.Runner
    app: FastAPI
    live: bool = False

    def get(self, path: str, params: Params | None = None) -> Any:
        return answer_of(self.runner.run(self._ask(path, params)))

    def follow(self, types: str) -> Iterator[Mapping[str, Any]]:
        raise InvalidInput(
            f"--watch: the instance is stopped and produces no {types}; start it with `slackwater up`", field="--watch"
        )

    async def _ask(self, path: str, params: Params | None) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=self.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path, params=given(params))


@contextlib.contextmanager
def open_offline_reader(state_dir: Path) -> Iterator[OfflineReader]:
    """The read model of the state directory while the context is open. Raises Conflict if it is in use."""
    with EmbeddedPostgres(state_dir) as server, asyncio.Runner() as runner:
        database = runner.run(_console_database(server.dsn))
        try:
            routers = routers_of(PostgresReadModel(database), Streams(LateBus(), SystemClock()), SystemClock())
            yield OfflineReader(runner, build_app(routers, _never_asked, HttpSettings.local()))
        finally:
            runner.run(database.close())


async def _console_database(superuser_dsn: str) -> PostgresDatabase:
    addresses = await prepare_database(superuser_dsn, [Schema.of(SERVICE)])
    return connect_database(addresses[SERVICE], SERVICE, SystemClock())


async def _never_asked() -> NoReturn:
    raise AssertionError("a stopped instance has no health checks")
