"""One server for a conformance test: the PostgreSQL in memory, or the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from probe_service import PROBE
from tests.support.link import DirectLink
from tests.support.postgres_twin.database import twin_database
from tests.support.postgres_twin.driver import connect
from tests.support.postgres_twin.migrated import migrated
from tests.support.postgres_twin.server import Server

from slackwater.model.time import SystemClock
from slackwater.store.engine import PostgresDatabase, connect_database

_END_OTHERS = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE usename = current_user AND pid <> pg_backend_pid()"
)
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND wait_event_type = 'Lock'"
    " AND state = 'active'"
)


@dataclass
class ServerUnderTest:
    """A database with the probe's schema, raw sessions, and the faults that both servers know."""

    database: PostgresDatabase
    opened: list[Any] = field(default_factory=list)

    async def dial(self) -> Any:
        raise NotImplementedError

    async def end_sessions(self) -> None:
        observer = await self.dial()
        await observer.execute(_END_OTHERS)

    async def refuse_writes(self) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def lost_answer(self) -> AsyncIterator[PostgresDatabase]:
        """Yields a database whose next commit that writes is applied without an answer."""
        yield self.database

    async def until_waiting(self, statements: int = 1) -> None:
        """Until so many statements wait for a lock."""
        observer = await self.dial()
        while await observer.fetchval(_WAITING) < statements:
            await asyncio.sleep(0.002)

    async def close(self) -> None:
        for connection in self.opened:
            connection.terminate()
        await self.database.close()


@dataclass
class TwinUnderTest(ServerUnderTest):
    server: Server = field(default_factory=lambda: Server(SystemClock()))

    @classmethod
    def begin(cls) -> TwinUnderTest:
        server = Server(SystemClock())
        server.create("probe", migrated(PROBE))
        return cls(twin_database(server, "probe", SystemClock()), [], server)

    async def dial(self) -> Any:
        self.opened.append(await connect(self.server, "probe", DirectLink(), "", {}))
        return self.opened[-1]

    async def refuse_writes(self) -> None:
        self.server.refuse_writes()

    @asynccontextmanager
    async def lost_answer(self) -> AsyncIterator[PostgresDatabase]:
        self.server.lose_answer()
        yield self.database


@dataclass
class RealUnderTest(ServerUnderTest):
    address: str = ""

    @classmethod
    def at(cls, address: str) -> RealUnderTest:
        return cls(connect_database(address, "probe", SystemClock()), [], address)

    async def dial(self) -> Any:
        self.opened.append(await asyncpg.connect(self.address, server_settings={"search_path": "probe"}))
        return self.opened[-1]

    async def refuse_writes(self) -> None:
        observer = await self.dial()
        name = await observer.fetchval("SELECT current_database()")
        await observer.execute(f"ALTER ROLE CURRENT_USER IN DATABASE {name} SET default_transaction_read_only = on")
        await self.end_sessions()

    @asynccontextmanager
    async def lost_answer(self) -> AsyncIterator[PostgresDatabase]:
        """A proxy drops what the server answers to COMMIT, or to the one statement that is a whole transaction."""
        parts = urlsplit(self.address)
        proxy = _DroppingProxy(str(parts.hostname), parts.port or 5432)
        server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        place = f"{parts.username}:{parts.password}@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        database = connect_database(urlunsplit(parts._replace(netloc=place)), "probe", SystemClock())
        try:
            yield database
        finally:
            await database.close()
            server.close()
            await proxy.ended()


class _DroppingProxy:
    """Forwards a connection until a client sends COMMIT: the server gets it, the client gets no answer."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._committed = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    async def ended(self) -> None:
        """Until every connection is closed: what outlives the loop of its test fails another one."""
        if self._serving:
            await asyncio.wait(self._serving)

    async def serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(client, answers))
        self._serving.add(task)
        await task

    async def _forward(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        server, requests = await asyncio.open_connection(self._host, self._port)
        back = asyncio.create_task(self._forward_answers(server, answers))
        with suppress(ConnectionError):
            while data := await client.read(65536):
                if b"COMMIT" in data:
                    self._committed.set()
                requests.write(data)
                await requests.drain()
        requests.close()
        await asyncio.wait([back])
        with suppress(ConnectionError):
            await requests.wait_closed()

    async def _forward_answers(self, server: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await server.read(65536):
                if self._committed.is_set():  # the server has answered, so the commit is applied
                    break
                answers.write(data)
                await answers.drain()
        answers.close()
        with suppress(ConnectionError):
            await answers.wait_closed()
