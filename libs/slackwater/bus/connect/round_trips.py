"""Pings of a connection that its user may give up waiting for."""

from __future__ import annotations

import asyncio

from nats.aio.client import Client
from nats.errors import Error as NatsError

PING_SECONDS = 0.5
PATIENCE_SECONDS = 30


class RoundTrips:
    """Asks whether the broker answers. The ping is never cancelled: nats-py drops the connection when a pong arrives
    for a cancelled ping, so a busy machine would disconnect itself by its own health check.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pings: set[asyncio.Task[bool]] = set()

    async def answered(self) -> bool:
        """Returns whether an answer came soon."""
        ping = asyncio.create_task(self._round_trip())
        self._pings.add(ping)
        ping.add_done_callback(self._pings.discard)
        await asyncio.wait({ping}, timeout=PING_SECONDS)
        return ping.done() and not ping.cancelled() and ping.result()

    def close(self) -> None:
        for ping in self._pings:
            ping.cancel()

    async def _round_trip(self) -> bool:
        try:
            await self._client.flush(timeout=PATIENCE_SECONDS)
        except (NatsError, TimeoutError):
            return False
        return self._client.is_connected  # without its reader, nats-py flushes without a ping
