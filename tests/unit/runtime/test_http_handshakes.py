"""A connection that stays in its TLS handshake is closed: after its time, and for a new connection at the limit."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trustme
import uvicorn
from prometheus_client import CollectorRegistry
from uvicorn.server import ServerState

from slackwater.runtime.bounded_http import BoundedHttp
from slackwater.runtime.http_acceptor import Acceptor
from slackwater.runtime.http_connections import OpenConnections
from slackwater.runtime.http_metrics import HttpMetrics
from slackwater.runtime.settings import HttpSettings
from slackwater.telemetry.metrics import Meters

WAIT_SECONDS = 30


@asynccontextmanager
async def listening(handshake_seconds: float, limit: int = 8) -> AsyncIterator[int]:
    """Yields the port of a listener with TLS."""
    metrics = HttpMetrics(Meters(CollectorRegistry()))
    connections = OpenConnections(limit, metrics)
    config = uvicorn.Config(lambda *_: None, interface="asgi3", lifespan="off", log_config=None, http=BoundedHttp)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        acceptor = Acceptor(
            listener,
            lambda: BoundedHttp(config, ServerState(), HttpSettings(), connections, metrics),
            connections,
            context,
            handshake_seconds,
        )
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            acceptor.close()
            await asyncio.sleep(0)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    with suppress(ConnectionResetError):
        async with asyncio.timeout(WAIT_SECONDS):
            return await reader.read() == b""
    return True


async def test_a_handshake_has_a_deadline() -> None:
    async with listening(0.1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await is_closed(reader)
        writer.close()


async def test_at_the_limit_the_oldest_handshake_makes_room() -> None:
    async with listening(3600, limit=2) as port:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert await is_closed(opened[0][0])
        assert not opened[2][0].at_eof()
        for _, writer in opened:
            writer.close()
