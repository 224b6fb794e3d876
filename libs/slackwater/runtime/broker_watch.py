"""Checks that the broker stores messages. A JetStream whose disk was full stays up and answers, but
stores nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import anyio

from slackwater.bus.read.unread import UnreadSubjects
from slackwater.runtime.service import Check
from slackwater.telemetry.logs import get_logger

if TYPE_CHECKING:
    from fastapi import APIRouter

log = get_logger(__name__)

LOOK_SECONDS = 1.0
STUCK_SECONDS = 10.0
"""Longer than a publish timeout, so that a slow broker is not restarted."""
PAUSE_SECONDS = 30.0
"""Minimum time between two restarts."""


class Stores(Protocol):
    """The part of the bus that is checked."""

    @property
    def trouble(self) -> str: ...
    @property
    def missing(self) -> str: ...
    @property
    def unread(self) -> UnreadSubjects: ...


class BrokerWatch:
    """Runs beside the services, reports in /readyz, and restarts an embedded broker.

    `restart` is called only while `has_room()`: with a full disk the broker could not start.
    """

    name = "broker"

    def __init__(
        self,
        bus: Stores,
        *,
        restart: Callable[[], Awaitable[None]] | None = None,
        has_room: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bus = bus
        self._restart = restart
        self._has_room = has_room
        self._monotonic = monotonic
        self._since: float | None = None
        self._restarted_at = float("-inf")

    async def run(self, started: Callable[[], None]) -> None:
        started()
        while True:
            await anyio.sleep(LOOK_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Check once: record since when nothing is stored, and restart after STUCK_SECONDS."""
        now = self._monotonic()
        if not self._bus.trouble:
            self._since = None
            return
        if self._since is None:
            self._since = now
            log.warning("broker does not store", said=self._bus.trouble)
        due = now - self._since >= STUCK_SECONDS and now - self._restarted_at >= PAUSE_SECONDS
        if self._restart is not None and due and self._has_room():
            log.error("broker restarts", seconds=round(now - self._since))
            self._restarted_at = now
            await self._restart()

    async def checks(self) -> Sequence[Check]:
        """Returns the broker check, and which last values are skipped because they cannot be read, which does not
        affect readiness. A missing stream is reported too, but does not cause a restart, which would not restore it.
        """
        problem = self._bus.trouble or self._bus.missing
        checks = [Check("broker-stores", not problem, problem)]
        if unread := self._bus.unread.text():
            checks.append(Check("bus-unread", True, unread))
        return checks

    def routers(self) -> Sequence[APIRouter]:
        return ()
