"""The part of SQLAlchemy's AsyncEngine and AsyncConnection that Slackwater uses: a pool of bounded size, one
transaction begun by the first statement, and the driver's errors as SQLAlchemy wraps them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import asyncpg
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool
from tests.support.postgres_twin.driver import Connection
from tests.support.postgres_twin.plan import StatementResult
from tests.support.postgres_twin.results import TwinResult

from slackwater.model.time import Clock

_REST_SECONDS = 1.0
_LOST = (asyncpg.ConnectionDoesNotExistError, asyncpg.InterfaceError, asyncpg.AdminShutdownError)


class WrappedError(Exception):
    """What SQLAlchemy's asyncpg dialect has as `orig`: the driver's error is its cause."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error)}: {error}")
        self.sqlstate = getattr(error, "sqlstate", None)
        self.__cause__ = error


def _wrapped(statement: str, error: BaseException) -> DBAPIError:
    kind = IntegrityError if isinstance(error, asyncpg.IntegrityConstraintViolationError) else DBAPIError
    return kind(statement, None, WrappedError(error), connection_invalidated=isinstance(error, _LOST))


class TwinPool(QueuePool):
    """At most `size` connections; the last used is used next. Waiting for one has a limit."""

    def __init__(self, dial: Callable[[], Awaitable[Connection]], clock: Clock, size: int, seconds: float) -> None:
        super().__init__(lambda: cast(Any, None))
        self._dial_one = dial
        self._clock = clock
        self._size = size
        self._seconds = seconds
        self._idle: list[tuple[Connection, float]] = []
        self._in_use = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def checkedout(self) -> int:
        return self._in_use

    def checkedin(self) -> int:
        return len(self._idle)

    async def acquire(self) -> Connection:
        """Raises sqlalchemy.exc.TimeoutError, and what connecting raises."""
        while self._in_use >= self._size:
            await self._turn()
        self._in_use += 1
        try:
            while self._idle:
                connection, since = self._idle.pop()
                if connection.is_closed() or not await self._answers(connection, since):
                    continue
                return connection
            return await self._dial_one()
        except BaseException:
            self._leave()
            raise

    async def _answers(self, connection: Connection, since: float) -> bool:
        """Asks a connection that has rested, as slackwater.store.engine does at checkout."""
        if self._clock.monotonic() - since < _REST_SECONDS:
            return True
        try:
            await connection.carry(connection.ping)
        except (asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        return True

    async def _turn(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(self._seconds):  # wait_for swallows a cancellation that meets the answer
                await waiting
        except TimeoutError as error:
            raise PoolTimeout(f"QueuePool limit of size {self._size} reached, connection timed out") from error
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._wake_next()
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def release(self, connection: Connection) -> None:
        if not connection.is_closed():
            self._idle.append((connection, self._clock.monotonic()))
        self._leave()

    def _leave(self) -> None:
        self._in_use -= 1
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    def close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.terminate()


class TwinConnection:
    """A connection of the pool for one unit of work."""

    def __init__(self, pool: TwinPool) -> None:
        self._pool = pool
        self._driver: Connection | None = None
        self._commits_itself = False
        self._is_open = False
        self.closed = True

    @property
    def sync_connection(self) -> Connection | None:
        return self._driver

    async def __aenter__(self) -> TwinConnection:
        self._driver = await self._pool.acquire()
        self.closed = False
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.closed or self._driver is None:
            return
        if self._is_open and not self._driver.is_closed():
            await asyncio.shield(asyncio.ensure_future(self._roll_back()))
        self._end()

    async def _roll_back(self) -> None:
        assert self._driver is not None
        try:
            await self._driver.rollback()
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise _wrapped("ROLLBACK", error) from error

    def _end(self) -> None:
        driver, self.closed = self._driver, True
        if driver is not None:
            self._pool.release(driver)

    def in_transaction(self) -> bool:
        return self._is_open

    async def execution_options(self, *, isolation_level: str) -> TwinConnection:
        assert isolation_level == "AUTOCOMMIT"
        self._commits_itself = True
        return self

    async def execute(
        self, statement: Any, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> TwinResult:
        sql = statement.text
        if isinstance(values, list):
            count = 0
            for one in values:
                count += (await self._run(sql, one)).count
            return TwinResult(StatementResult((), [], count, ""))
        return TwinResult(await self._run(sql, values))

    async def _run(self, sql: str, values: Any) -> StatementResult:
        assert self._driver is not None
        begins = not self._commits_itself
        self._is_open = self._is_open or begins
        try:
            return await self._driver.run(sql, values, begins=begins)
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise _wrapped(sql, error) from error

    async def commit(self) -> None:
        if not self._is_open:
            return
        assert self._driver is not None
        try:
            await self._driver.commit()
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise _wrapped("COMMIT", error) from error
        self._is_open = False

    async def rollback(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._roll_back()

    async def invalidate(self) -> None:
        if self._driver is not None:
            self._driver.terminate()
        if not self.closed:
            self._end()

    async def get_raw_connection(self) -> SimpleNamespace:
        return SimpleNamespace(driver_connection=self._driver)


class TwinEngine:
    """The connections of one process to one schema."""

    def __init__(
        self, dial: Callable[[], Awaitable[Connection]], clock: Clock, *, size: int = 6, seconds: float = 10.0
    ) -> None:
        self.pool = TwinPool(dial, clock, size, seconds)

    def connect(self) -> TwinConnection:
        return TwinConnection(self.pool)

    async def dispose(self) -> None:
        self.pool.close_idle()


def as_engine(engine: TwinEngine) -> AsyncEngine:
    """Returns the engine in the type that slackwater.store.engine declares."""
    return cast(AsyncEngine, engine)
