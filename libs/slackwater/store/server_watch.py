"""Tells whether the server of one pool still answers, and ends the pool's sessions if it does not.

A frozen server, or a network that drops packets, accepts a statement and never answers it. The
server's own statement timeout cannot fire then, and TCP keepalive is answered by the kernel. A bound on
each statement would be wrong: some may take half a minute. So a use of a session that takes long
makes this process open one more session. Where that gets no answer, all sessions of the pool end, and
their statements fail as on any lost connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol
from weakref import WeakSet

import asyncpg

from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

PATIENCE_SECONDS = 2.0
"""How long a session may be in use before the server is asked."""
ANSWER_SECONDS = 1.5
_ATTEMPTS = 2
"""Two, because an event loop that stood still for long ends the first attempt although the server
answered.
"""
_PAUSE_SECONDS = 0.5

log = get_logger(__name__)


class WatchedSession(Protocol):
    def terminate(self) -> None: ...


Ask = Callable[[], Awaitable[bool]]


class ServerWatch:
    """The watch over one pool. `ask` returns whether the server answered a new session in time."""

    def __init__(self, ask: Ask, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._sessions: WeakSet[Any] = WeakSet()
        self._checkouts: set[asyncio.Timeout] = set()
        self._asking: asyncio.Task[None] | None = None
        self._silent = False

    def add(self, session: WatchedSession) -> None:
        self._sessions.add(session)

    def require_answering(self) -> None:
        """Raises Unavailable between the end of the sessions and the server's next answer."""
        if self._silent:
            raise Unavailable("PostgreSQL does not answer; its sessions were ended, and new ones are tried")

    @contextmanager
    def used(self) -> Iterator[None]:
        """Watches one use of a session, from before its checkout until it is back in the pool."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def overdue() -> None:
            nonlocal timer
            self._begin()
            timer = loop.call_later(PATIENCE_SECONDS, overdue)

        timer = loop.call_later(PATIENCE_SECONDS, overdue)
        try:
            yield
        finally:
            timer.cancel()

    @asynccontextmanager
    async def checkout(self) -> AsyncIterator[None]:
        """Bounds the wait for a session. The pool does not wake its queue when a session ends.
        Raises TimeoutError.
        """
        async with asyncio.timeout(None) as bound:
            self._checkouts.add(bound)
            try:
                yield
            finally:
                self._checkouts.discard(bound)

    @property
    def checkouts(self) -> int:
        """Returns how many uses wait for a session."""
        return len(self._checkouts)

    async def close(self) -> None:
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.wait([asking])

    def _begin(self) -> None:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_until_answered())

    async def _ask_until_answered(self) -> None:
        while not await self._answers():
            if not self._silent:
                log.warning("PostgreSQL is silent: its sessions are ended", sessions=len(self._sessions))
            self._silent = True
            self._end_sessions()
            await self._clock.sleep(_PAUSE_SECONDS)
        if self._silent:
            log.warning("PostgreSQL answers again")
        self._silent = False

    async def _answers(self) -> bool:
        for _ in range(1 if self._silent else _ATTEMPTS):
            if await self._ask():
                return True
        return False

    def _end_sessions(self) -> None:
        for session in list(self._sessions):
            session.terminate()
        self._sessions.clear()
        now = asyncio.get_running_loop().time()
        for bound in list(self._checkouts):
            bound.reschedule(now)


async def answers(dsn: str) -> bool:
    """Returns whether the server opens a session, or says why it does not, within ANSWER_SECONDS."""
    try:
        session = await asyncpg.connect(dsn, timeout=ANSWER_SECONDS)
    except asyncpg.PostgresConnectionError:  # closed without a word
        return False
    except asyncpg.PostgresError:
        return True
    except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        return False
    session.terminate()
    return True
