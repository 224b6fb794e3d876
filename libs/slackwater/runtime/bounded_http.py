"""HTTP/1.1 whose requests have deadlines. uvicorn bounds only the time between two requests."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.server import ServerState

from slackwater.runtime.certified_http import CertifiedHttp
from slackwater.runtime.http_connections import OpenConnections
from slackwater.runtime.http_metrics import HttpMetrics
from slackwater.runtime.problems import problem
from slackwater.runtime.settings import HttpSettings


class Phase(StrEnum):
    """The phase of a connection's present request."""

    IDLE = "idle"
    """Between two requests. uvicorn closes it after `idle_seconds`."""
    HEADER = "header"
    """From the start of the connection, or the first byte of a further request, to the end of the headers."""
    BODY = "body"
    """From there to the end of the request."""
    ANSWER = "answer"
    """From there to the end of the answer."""


class BoundedHttp(CertifiedHttp):
    """Each phase of a request has one deadline, however many bytes arrive in it, so that a slow drip ends too."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        settings: HttpSettings,
        connections: OpenConnections,
        metrics: HttpMetrics,
    ) -> None:
        super().__init__(config, server_state, {})
        self.connecting: asyncio.Task[None] | None = None
        """The TLS handshake; set by the acceptor."""
        self._seconds = {Phase.HEADER: settings.header_seconds, Phase.BODY: settings.body_seconds}
        self._open_connections = connections
        self._metrics = metrics
        self._current: tuple[Phase, object] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._follow()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_deadline()
        self._open_connections.remove(self)

    def close_now(self) -> None:
        """Implements slackwater.runtime.http_connections.AcceptedConnection."""
        if self.transport is not None:
            self.transport.abort()
        elif self.connecting is not None:
            self.connecting.cancel()

    def _follow(self) -> None:
        """Start the deadline of a phase that has begun, and keep the connection while it is answered."""
        current = (self._phase(), self.cycle)
        if current == self._current:
            return
        self._current = current
        self._stop_deadline()
        phase, _ = current
        if phase is Phase.ANSWER:
            self._open_connections.keep(self)
        else:
            self._open_connections.wait(self)
        if (seconds := self._seconds.get(phase)) is not None:
            self._deadline = self.loop.call_later(seconds, self._expire, phase, seconds)

    def _phase(self) -> Phase:
        received = self.conn.their_state
        if received is h11.SEND_BODY:
            return Phase.BODY
        if received is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            return Phase.HEADER
        return Phase.IDLE if self.cycle is None or self.cycle.response_complete else Phase.ANSWER

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self, phase: Phase, seconds: float) -> None:
        """Close a connection whose request is late, with an answer where none has begun and something was sent."""
        if self.transport.is_closing():
            self.transport.abort()
            return
        self._metrics.closed.labels(phase.value).inc()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE) and (phase is Phase.BODY or self.conn.trailing_data[0]):
            self._refuse(f"the {phase} of the request was not complete within {seconds:g} s")
            self.transport.close()
        else:
            self.transport.abort()

    def _refuse(self, detail: str) -> None:
        answer = problem(408, "request_timeout", detail)
        headers: list[Any] = [*self.server_state.default_headers, *answer.raw_headers, (b"connection", b"close")]
        response = h11.Response(status_code=answer.status_code, headers=headers, reason=b"Request Timeout")
        for event in (response, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:  # its application reads the body: for it, the client has left
            self.cycle.disconnected = True
            self.cycle.message_event.set()
