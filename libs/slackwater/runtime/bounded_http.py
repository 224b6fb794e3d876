"""HTTP/1.1 whose requests have deadlines, and whose bodies do not come in crumbs. uvicorn bounds only the time between
two requests.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any, Final

import h11
from uvicorn.config import Config
from uvicorn.server import ServerState

from slackwater.runtime.certified_http import CertifiedHttp
from slackwater.runtime.http_connections import OpenConnections
from slackwater.runtime.http_metrics import HttpMetrics
from slackwater.runtime.problems import problem
from slackwater.runtime.settings import HttpSettings

MOST_SMALL_CHUNKS, CHUNK_BYTES = 1024, 512
"""Of a body that says no length: so many chunks, and one more for each CHUNK_BYTES of it. A chunk costs 6 us, whatever
is in it: 256 KiB of chunks of one byte, which are read at once, took 0.3 s before the application had seen the request.
"""
_MOST_HEAD_BYTES: Final = 16_384


class _Chunks(h11.Connection):
    """Refuses a body of many small chunks."""

    _count = 0
    _bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._count += event.chunk_start
            self._bytes += len(event.data)
            if self._count > MOST_SMALL_CHUNKS + self._bytes // CHUNK_BYTES:
                raise h11.RemoteProtocolError("a body of too many small chunks")
        elif isinstance(event, h11.Request):
            self._count = self._bytes = 0
        return event


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
        self.conn = _Chunks(h11.SERVER, config.h11_max_incomplete_event_size or _MOST_HEAD_BYTES)
        self.connecting: asyncio.Task[None] | None = None
        """The TLS handshake; set by the acceptor."""
        self._is_connected = False
        self._seconds = {Phase.HEADER: settings.header_seconds, Phase.BODY: settings.body_seconds}
        self._open_connections = connections
        self._metrics = metrics
        self._current: tuple[Phase, object] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._is_connected = True
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

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request. uvicorn would raise where the answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
        self._leave()

    def close_now(self) -> None:
        """Implements slackwater.runtime.http_connections.AcceptedConnection."""
        if self._is_connected:
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
        self._leave()

    def _leave(self) -> None:
        """For an application that still reads the body, or has yet to answer, the client has left."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
