"""Opens connections to the broker: the main one, and a second one for bulk consumers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nats.aio.client import Client, Server
from nats.errors import Error as NatsError

from slackwater.bus.admin.streams import ConsumerSpec
from slackwater.bus.connect.access import servers_of, without_login
from slackwater.bus.connect.connect_errors import ConnectErrors
from slackwater.bus.connect.nats_client import EncryptedClient, SteadyClient, is_clustered
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

CONNECT_SECONDS = 10.0
PENDING_BYTES = 16 * 1024 * 1024
CLOSE_SECONDS = 3.0
RECONNECT_SECONDS, LONGEST_RECONNECT_SECONDS = 0.2, 1.0
"""Mean pause before the first and the later attempts; each pause is drawn from 0.5 to 1.5 times its mean."""
PING_SECONDS, CLUSTER_PING_SECONDS = 10, 3
"""A server that leaves three pings unanswered is given up. Where there are others, that must not take half a minute."""


class Connector:
    """Opens connections under one client name. An open connection reconnects without limit."""

    def __init__(self, url: str, name: str, proof: Mapping[str, Any], wait_seconds: float) -> None:
        self._url = url
        self._name = name
        self._proof = proof
        self._wait_seconds = wait_seconds
        self._on_reconnect: Callable[[], None] = _nobody
        self._on_disconnect: Callable[[], None] = _nobody

    def on_change(self, on_reconnect: Callable[[], None], on_disconnect: Callable[[], None]) -> None:
        """Set the callbacks for reconnects and disconnects of the first connection."""
        self._on_reconnect, self._on_disconnect = on_reconnect, on_disconnect

    async def dial(self, suffix: str = "", on_reconnect: Callable[[], None] | None = None) -> Client:
        """Returns a connected client. Raises Unavailable if no broker answers in time."""
        client = EncryptedClient() if self._url.startswith("tls://") else SteadyClient()
        name, is_first = f"{self._name}{suffix}", on_reconnect is None
        until, is_waiting = asyncio.get_running_loop().time() + self._wait_seconds, True
        refusals = ConnectErrors()

        def ping_fast_in_a_cluster() -> None:
            client.options["ping_interval"] = CLUSTER_PING_SECONDS if is_clustered(client) else PING_SECONDS

        async def reconnected() -> None:
            ping_fast_in_a_cluster()
            log.info("bus connected again", client=name)
            (on_reconnect or self._on_reconnect)()

        async def disconnected() -> None:
            if not client.is_closed:
                log.warning("bus connection lost", client=name)
            client.drop_answers()
            if is_first:
                self._on_disconnect()

        try:
            async with asyncio.timeout(self._wait_seconds):
                await client.connect(
                    servers_of(self._url),
                    name=name,
                    error_cb=_on_error(name, until, lambda: is_waiting, refusals.note),
                    reconnected_cb=reconnected,
                    disconnected_cb=disconnected,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_SECONDS,  # seconds
                    reconnect_to_server_handler=next_server,
                    connect_timeout=2,
                    ping_interval=PING_SECONDS,
                    max_outstanding_pings=2,
                    pending_size=PENDING_BYTES,
                    drain_timeout=2,
                    **self._proof,
                )
        except (NatsError, OSError, TimeoutError) as error:
            is_waiting = False  # closing can fail too, and reports it through the same callback
            await client.close()
            raise Unavailable(
                f"no NATS at {without_login(self._url)} within {self._wait_seconds:g} s: {refusals.why(error)}"
            ) from error
        is_waiting = False
        ping_fast_in_a_cluster()
        return client

    def reconnected(self) -> None:
        """Run the reconnect callback as if the first connection had been re-established."""
        self._on_reconnect()


class BulkConnection:
    """The connection for `bulk` consumers, opened with the first of them.

    One pull can bring ten megabytes of reports, and later messages on the same connection queue
    behind it: crossings and publish acknowledgements waited up to 0.1 s.
    """

    def __init__(self, first: Client, dialer: Connector | None) -> None:
        self._first = first
        self._dialer = dialer
        self._own: Client | None = None
        self._dialing = asyncio.Lock()

    @property
    def is_connected(self) -> bool:
        return self._own is None or self._own.is_connected

    def connection(self, name: str) -> Mapping[str, Client]:
        """Returns the connection by its name, once it is open."""
        return {} if self._own is None else {name: self._own}

    async def client_for(self, spec: ConsumerSpec) -> Client:
        """Returns the bulk connection for a bulk consumer, else the main one. Raises Unavailable if
        no broker answers in time.
        """
        if not spec.bulk or self._dialer is None:
            return self._first
        async with self._dialing:
            if self._own is None:
                self._own = await self._dialer.dial("-bulk", self._dialer.reconnected)
            return self._own

    async def close(self) -> None:
        if self._own is not None:
            await ended(self._own)


async def close_all(*closes: Callable[[], Awaitable[None]]) -> None:
    """Close one after the other, also while a cancellation is pending: a process that a signal ends would else leave
    its connection open, and log its broker's stop as a lost connection. Raises the cancellation afterwards.
    """

    async def close_each() -> None:
        for close in closes:
            await close()

    closing, cancelled = asyncio.ensure_future(close_each()), None
    while not closing.done():
        try:
            await asyncio.wait({closing})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    closing.result()


async def ended(client: Client) -> None:
    """Close a connection. Errors are ignored, because the broker may stop at the same moment, for
    instance at a machine shutdown; one that reads nothing more is waited for CLOSE_SECONDS.
    """
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.close()
    except TimeoutError:
        if isinstance(client, SteadyClient):
            client.abort()
    except (NatsError, OSError):
        client._status = Client.DISCONNECTED  # nats-py already reports closed but has not ended its tasks
        with suppress(NatsError, OSError):
            await client.close()


def next_server(servers: Sequence[Server], _: Mapping[str, Any]) -> tuple[Server, float]:
    """Returns the server to try next and the pause before: one of those with the fewest failures since a client was
    last connected to them. The client shuffles them first, so that those of a lost server spread over all others.
    """
    chosen = min(servers, key=lambda server: server.reconnects)
    mean = min(RECONNECT_SECONDS * 2 ** min(chosen.reconnects, 10), LONGEST_RECONNECT_SECONDS)
    return chosen, mean * random.uniform(0.5, 1.5)


def _nobody() -> None:
    """Default callback: does nothing."""


def _on_error(
    name: str, until: float, waiting: Callable[[], bool], note: Callable[[Exception], None]
) -> Callable[[Exception], Awaitable[None]]:
    """Returns the error callback of a client. It also ends the initial connect at `until`: Python
    3.11's wait_for can swallow the cancellation when an attempt has just failed, and the client
    would retry without limit.
    """

    async def on_error(error: Exception) -> None:
        log.debug("bus client error", client=name, error=repr(error))
        if waiting():
            note(error)
        if waiting() and asyncio.get_running_loop().time() > until:
            raise TimeoutError from error

    return on_error
