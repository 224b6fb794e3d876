"""Tells whether the server of one pool still answers, and ends the pool's sessions if it does not.

A frozen server, or a network that drops packets, accepts a statement and never answers it. The
server's own statement timeout cannot fire then, and TCP keepalive is answered by the kernel. A bound on
each statement would be wrong: some may take half a minute. So a use of a session that takes long
makes this process open one more session. Where that gets no answer, all sessions of the pool end, and
their statements fail as on any lost connection. Where another server answers it, those of the former end.
On a machine without CPU to spare a new session may take seconds: while uses of sessions still end, the server is slow,
not silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol
from weakref import WeakKeyDictionary

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


Ask = Callable[[], Awaitable[str | None]]
"""Returns which server answered a new session; None when none did in time, an empty text when it did not say."""


class ServerWatch:
    """The watch over one pool. Where the address leads to another server after a failover, the sessions that the former
    one still holds are ended, too: no packet would end them.
    """

    def __init__(self, ask: Ask, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._sessions: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._checkouts: set[asyncio.Timeout] = set()
        self._asking: asyncio.Task[None] | None = None
        self._silent = False
        self._ended_uses = 0
        """Uses of sessions that ended without an error: each had an answer of the server."""

    def add(self, session: WatchedSession, server: str) -> None:
        """Watch a session that this server has opened."""
        self._sessions[session] = server

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
            self._ended_uses += 1
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
        ended_uses = self._ended_uses
        while (server := await self._answers()) is None:
            if self._ended_uses != ended_uses and not self._silent:
                return  # asked again by the next use that takes long
            if not self._silent:
                log.warning("PostgreSQL is silent: its sessions are ended", sessions=len(self._sessions))
            self._silent = True
            self._end_sessions(list(self._sessions))
            await self._clock.sleep(_PAUSE_SECONDS)
        if self._silent:
            log.warning("PostgreSQL answers again")
        self._silent = False
        elsewhere = [session for session, opener in self._sessions.items() if server and opener != server]
        if elsewhere:
            log.warning("PostgreSQL is another server now: sessions of the former are ended", sessions=len(elsewhere))
            self._end_sessions(elsewhere)

    async def _answers(self) -> str | None:
        for _ in range(1 if self._silent else _ATTEMPTS):
            if (server := await self._ask()) is not None:
                return server
        return None

    def _end_sessions(self, sessions: Sequence[WatchedSession]) -> None:
        for session in sessions:
            session.terminate()
            del self._sessions[session]
        now = asyncio.get_running_loop().time()
        for bound in list(self._checkouts):
            bound.reschedule(now)


async def answers(dsn: str) -> str | None:
    """Returns the server that opens a session, or says why it does not, within ANSWER_SECONDS. See Ask."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            session = await asyncpg.connect(dsn, timeout=ANSWER_SECONDS)
            try:
                return await server_of(session)
            finally:
                session.terminate()
    except asyncpg.PostgresConnectionError:  # closed without a word
        return None
    except asyncpg.PostgresError:
        return ""
    except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        return None


async def server_of(session: asyncpg.Connection[Any]) -> str:
    """Returns what tells the server of a session from any other, and from itself before a restart."""
    return str(await session.fetchval("SELECT pg_postmaster_start_time()"))
