"""Accepts the connections of an HTTP listener.

asyncio's own server accepts as many connections as its backlog holds before the protocol of the first one is called.
It does not say which of them are in a TLS handshake, and without a free descriptor it logs each attempt.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from slackwater.runtime.bounded_http import BoundedHttp
from slackwater.runtime.http_connections import OpenConnections
from slackwater.telemetry.logs import get_logger

AT_ONCE = 16
"""Connections accepted in one turn of the loop, between which requests are read and answered."""
PAUSE_SECONDS = 0.1
"""Pause after a failure to accept, mostly because no descriptor is free."""
CLOSE_SECONDS = 5.0
"""Time for a peer's part in the end of a TLS connection."""

log = get_logger(__name__)


class Acceptor:
    """Accepts from `start` to `close`. `make` returns the protocol of one connection."""

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], BoundedHttp],
        connections: OpenConnections,
        tls: ssl.SSLContext | None,
        handshake_seconds: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._make = make
        self._connections = connections
        self._tls = tls
        self._handshake_seconds = handshake_seconds
        self._connecting: set[asyncio.Task[None]] = set()
        self._paused: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Accept from now on."""
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept no more, and end the handshakes. The listener and open connections stay open."""
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._listener)
        for task in self._connecting:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("cannot accept connections", error=error.strerror, open=len(self._connections))
                self._connections.close_oldest()
                self._loop.remove_reader(self._listener)
                self._paused = self._loop.call_later(PAUSE_SECONDS, self.start)
                return
            accepted.setblocking(False)
            self._connect(accepted)

    def _connect(self, accepted: socket.socket) -> None:
        protocol = self._make()
        task = self._loop.create_task(self._handshake(accepted, protocol), name="http connection")

        def ended(task: asyncio.Task[None]) -> None:
            self._connecting.discard(task)
            if task.cancelled() or task.exception() is not None:
                self._connections.remove(protocol)
                accepted.close()

        task.add_done_callback(ended)
        self._connecting.add(task)
        protocol.connecting = task
        self._connections.add(protocol)

    async def _handshake(self, accepted: socket.socket, protocol: BoundedHttp) -> None:
        """Hand the connection to its protocol, after the TLS handshake if there is one."""
        is_tls = self._tls is not None
        await self._loop.connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=self._tls,
            ssl_handshake_timeout=self._handshake_seconds if is_tls else None,
            ssl_shutdown_timeout=CLOSE_SECONDS if is_tls else None,
        )
