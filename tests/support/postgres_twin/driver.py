"""The part of asyncpg's connection that Slackwater uses, on the server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import asyncpg
from tests.support.link import Link
from tests.support.postgres_twin.copy_format import decoded_rows
from tests.support.postgres_twin.plan import StatementResult
from tests.support.postgres_twin.server import Server
from tests.support.postgres_twin.session import Running, Session

from slackwater.model.errors import Unavailable

Listener = Callable[["Connection", int, str, object], None]


class NamedRow(tuple[Any, ...]):
    """The part of asyncpg.Record that Slackwater uses: values by position and by name."""

    names: Sequence[str] = ()

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)


@cache
def _record_class(names: tuple[str, ...]) -> type[NamedRow]:
    return type("Record", (NamedRow,), {"names": names})


class Connection:
    """A client's side of a session. What the link loses ends it: a client cannot tell what was applied."""

    def __init__(self, server: Server, session: Session, link: Link) -> None:
        self._server = server
        self._link = link
        self.session = session
        self._is_closed = False
        self._ends: list[Callable[[Any], None]] = []
        session.deliver = link.deliver
        session.ended = self._ended

    def is_closed(self) -> bool:
        return self._is_closed

    def is_in_transaction(self) -> bool:
        return self.session.transaction is not None

    async def run(self, sql: str, parameters: Any, *, begins: bool = False) -> StatementResult:
        """Runs one statement; waits for the locks that it needs."""
        return await self._exchange(lambda: self._server.execute(self.session, sql, parameters, begins=begins))

    async def _exchange(self, start: Callable[[], Running]) -> StatementResult:
        running = None
        self._refuse_if_closed()
        try:
            running = await self._link.call(start)
            if running.future is None:
                return running.outcome()
            await running.future
            return await self._link.call(running.outcome)
        except Unavailable:
            self._lose(self._server.notice_seconds)
            raise
        except asyncio.CancelledError:
            self._lose(0.0)
            raise
        except (asyncpg.ConnectionDoesNotExistError, asyncpg.AdminShutdownError):
            self._is_closed = True
            raise

    async def carry(self, operation: Callable[[], None]) -> None:
        """Carries a commit or a rollback to the server."""
        self._refuse_if_closed()
        try:
            await self._link.call(operation)
        except Unavailable:
            self._lose(self._server.notice_seconds)
            raise
        except asyncio.CancelledError:
            self._lose(0.0)
            raise
        except asyncpg.ConnectionDoesNotExistError:
            self._is_closed = True
            raise

    def ping(self) -> None:
        self._server.ping(self.session)

    async def commit(self) -> None:
        await self.carry(lambda: self._server.commit(self.session))

    async def rollback(self) -> None:
        await self.carry(lambda: self._server.rollback(self.session))

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise asyncpg.InterfaceError("connection is closed")

    def _lose(self, after_seconds: float) -> None:
        self._is_closed = True
        self._server.abandon(self.session, after_seconds)

    def _ended(self) -> None:
        self._is_closed = True
        for tell in self._ends:
            tell(self)

    def terminate(self) -> None:
        if not self._is_closed:
            self._lose(0.0)

    async def close(self) -> None:
        self.terminate()

    # asyncpg's methods

    async def fetch(self, sql: str, *values: Any) -> list[NamedRow]:
        result = await self.run(sql, values)
        return list(map(_record_class(tuple(result.names)), result.rows))

    async def fetchval(self, sql: str, *values: Any) -> Any:
        rows = (await self.run(sql, values)).rows
        return rows[0][0] if rows else None

    async def execute(self, sql: str, *values: Any) -> str:
        result = await self.run(sql, values)
        return f"{result.tag} {result.count}"

    async def add_listener(self, channel: str, listener: Listener) -> None:
        def receive(name: str, payload: str, pid: int) -> None:
            listener(self, pid, name, payload)

        def listen() -> None:
            self._server.ping(self.session)
            self.session.channels[channel] = receive

        await self.carry(listen)

    def add_termination_listener(self, tell: Callable[[Any], None]) -> None:
        self._ends.append(tell)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        await self.carry(lambda: self._server.begin(self.session))
        try:
            yield
        except BaseException:
            if not self._is_closed:
                await self.rollback()
            raise
        await self.commit()

    async def copy_records_to_table(
        self, table: str, *, records: Sequence[Sequence[Any]], columns: Sequence[str]
    ) -> None:
        await self._exchange(lambda: self._server.copy(self.session, table, columns, records))

    async def copy_to_table(
        self,
        table: str,
        *,
        source: AsyncIterable[memoryview],
        columns: Sequence[str],
        format: str,  # noqa: A002 - asyncpg names it so
    ) -> None:
        assert format == "binary"
        body = b"".join([bytes(chunk) async for chunk in source])
        definition = self.session.tables[table].definition
        kinds = [definition.columns[definition.places[name]].type for name in columns]
        await self.copy_records_to_table(table, records=decoded_rows(body, kinds), columns=columns)


async def connect(server: Server, service: str, link: Link, process: str, settings: Mapping[str, float]) -> Connection:
    """Opens a session. Raises as asyncpg.connect does, and Unavailable for what the link loses."""
    session = await link.call(lambda: server.connect(service, process, settings))
    return Connection(server, session, link)
