"""The connection of one simulated process to one simulated server.

The in-memory broker and database apply operations at once. What lies between a process and a server is a link: the
simulated world (tests/world) delays, loses and reorders there, and cuts one direction at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Link(Protocol):
    """Carries requests to a server and messages back."""

    async def call(self, operation: Callable[[], T]) -> T:
        """Carry a request to the server, apply `operation` there atomically, carry its result or exception back.

        Raises Unavailable if the request or its answer is lost: the caller cannot tell whether `operation` was applied.
        """
        ...

    def send(self, operation: Callable[[], None]) -> None:
        """Carry a message to the server, which applies `operation`. It may be late, reordered or lost; nothing is
        answered, and a server that is down gets nothing."""
        ...

    def deliver(self, receive: Callable[[], None]) -> None:
        """Carry a message of the server to the process, which runs `receive`. It may be late, reordered or lost."""
        ...

    def on_close(self, closed: Callable[[], None]) -> None:
        """Have the server run `closed` when the connection has ended, because the process has crashed or stopped: it
        rolls back the transactions and drops the subscriptions and requests of this connection."""
        ...


class DirectLink:
    """Loses and delays nothing: what a process beside its server sees."""

    async def call(self, operation: Callable[[], T]) -> T:
        return operation()

    def send(self, operation: Callable[[], None]) -> None:
        operation()

    def deliver(self, receive: Callable[[], None]) -> None:
        receive()

    def on_close(self, closed: Callable[[], None]) -> None:
        """Never: the process ends with the test."""


class SoonLink(DirectLink):
    """As DirectLink, but everything arrives later: when the event loop has run, or after a delay in each direction."""

    def __init__(self, delay_seconds: float = 0.0) -> None:
        self._delay_seconds = delay_seconds

    async def call(self, operation: Callable[[], T]) -> T:
        await asyncio.sleep(2 * self._delay_seconds)
        return operation()

    def send(self, operation: Callable[[], None]) -> None:
        self._later(operation)

    def deliver(self, receive: Callable[[], None]) -> None:
        self._later(receive)

    def _later(self, run: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if self._delay_seconds:
            loop.call_later(self._delay_seconds, run)
        else:
            loop.call_soon(run)
