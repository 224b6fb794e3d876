"""Updates followed documents after a schema notification, so that every replica follows a change at
once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
AGAIN_SECONDS = 1.0


class Followable(Protocol):
    """The documents that this replica follows."""

    @property
    def problems(self) -> Mapping[str, str]:
        """Returns, by document name, why its newest generation is not followed."""
        ...

    async def catch_up(self) -> None:
        """Read the documents again and follow them. Raises Conflict, Unavailable; then nothing
        changes.
        """
        ...


class ResourceNews:
    """Reads the documents again after each notification, with retries until it succeeds."""

    def __init__(self, in_force: Followable, clock: Clock) -> None:
        self._in_force = in_force
        self._clock = clock
        self._news = asyncio.Event()
        self._named: dict[str, str] = {}

    def notify(self) -> None:
        """Signal a notification to the replicas."""
        self._news.set()

    async def follow(self) -> None:
        """Work until cancelled."""
        self._name_problems()
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._in_force.catch_up()
            except (Conflict, Unavailable) as error:
                log.warning("policies are not followed yet", reason=error.message)
                await self._clock.sleep(AGAIN_SECONDS)
                self._news.set()
            self._name_problems()

    def _name_problems(self) -> None:
        """Log each problem once."""
        problems = dict(self._in_force.problems)
        for name, why in problems.items():
            if self._named.get(name) != why:
                log.error("policy is not usable", policy=name, reason=why)
        self._named = problems


def unusable_text(problems: Mapping[str, str]) -> str:
    """Returns the unusable documents for health; begins with a semicolon, empty if there are
    none.
    """
    broken = "; ".join(f"{name} keeps to the last good one: {why}" for name, why in sorted(problems.items()))
    return f"; {broken}" if broken else ""
