"""Does the broker store what it is given? A JetStream whose disk was full stays up, answers, and stores nothing."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import anyio

from slackwater.runtime.service import Check
from slackwater.telemetry.logs import get_logger

if TYPE_CHECKING:
    from fastapi import APIRouter

log = get_logger(__name__)

LOOK_SECONDS = 1.0
STUCK_SECONDS = 10.0
"""Longer than one publish waits for its answer: a broker that is only slow is left alone."""
PAUSE_SECONDS = 30.0
"""Between two restarts; one that did not help is not repeated at once."""


class Stores(Protocol):
    """The part of the bus that is looked at."""

    @property
    def trouble(self) -> str: ...
    @property
    def missing(self) -> str: ...


class BrokerWatch:
    """A part beside the services. It says so in /readyz, and restarts the broker where that is ours to do.

    `restart` is for an embedded broker; it is called only while `has_room()`: before that it could not start.
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
            await self.look()

    async def look(self) -> None:
        """Once: note since when nothing is stored, and restart when that has lasted."""
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
        """A stream that is not there says so too; a restart of the broker would not bring it back."""
        said = self._bus.trouble or self._bus.missing
        return [Check("broker-stores", not said, said)]

    def routers(self) -> Sequence[APIRouter]:
        return ()
