"""The client's side: nats-py's client without a socket, and the connector that the real bus uses with it.

What nats-py promises is kept: publishing while disconnected is buffered and sent after the reconnect, subscriptions are
made again, requests that get no answer time out, and callbacks of one subscription run one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar

from nats.aio.client import Client, ServerVersion
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import ConnectionClosedError, NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError
from tests.support.jetstream.broker import JetStreamBroker
from tests.support.jetstream.connection import ServerConnection
from tests.support.link import Link, SoonLink

from slackwater.bus.admin.streams import Topology
from slackwater.bus.connect.access import NatsAccess
from slackwater.bus.connect.connections import CONNECT_SECONDS, RECONNECT_SECONDS, Connector
from slackwater.bus.connect.nats_bus import NatsBus, open_bus
from slackwater.bus.connect.nats_client import DeliveredMsg
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

PING_SECONDS = 10.0
MOST_PINGS_OUT = 2
_INBOX = "_INBOX."
_MAX_PAYLOAD = 1024 * 1024

Notify = Callable[[], None]


class MemoryClient(Client):
    """See nats.aio.client.Client: the part of it that slackwater.bus uses."""

    _VERSION: ClassVar[ServerVersion] = ServerVersion("2.15.1")

    def __init__(self, broker: JetStreamBroker, link: Link, name: str) -> None:
        super().__init__()
        self._broker = broker
        self._link = link
        self._client_name = name
        self._max_payload = _MAX_PAYLOAD
        self._connection: ServerConnection | None = None
        self._buffered: list[Callable[[ServerConnection], None]] = []
        self._inboxes = 0
        self._inbox_callbacks: dict[int, Callable[[Msg], Coroutine[Any, Any, None]]] = {}
        self._requests: dict[str, asyncio.Future[Msg]] = {}
        self._request_inbox = f"{_INBOX}{name}.requests"
        self._request_sid = 0
        self._waiting_pongs: list[asyncio.Future[None]] = []
        self._is_quiet = False
        self._pings_out = 0
        self._reconnecting: asyncio.Task[None] | None = None
        self._on_lost: Notify = _ignore
        self._on_reconnect: Notify = _ignore

    @property
    def connected_server_version(self) -> ServerVersion:
        return self._VERSION

    def on_change(self, reconnected: Notify, lost: Notify) -> None:
        """Set the callbacks for reconnects and disconnects."""
        self._on_reconnect, self._on_lost = reconnected, lost

    async def open(self, wait_seconds: float) -> None:
        """Connect. Raises Unavailable if the server cannot be reached in time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        while True:
            try:
                await self._connect()
                break
            except Unavailable as error:
                if loop.time() + RECONNECT_SECONDS >= until:
                    raise Unavailable(f"no NATS within {wait_seconds:g} s: {error.message}") from error
            await asyncio.sleep(RECONNECT_SECONDS)
        await self.subscribe(f"{self._request_inbox}.*", cb=self._answered)
        loop.call_later(PING_SECONDS, self._ping_regularly)

    async def _connect(self) -> None:
        connection = await self._link.call(partial(self._broker.connect, self._client_name, self._link, self))
        if self.is_closed:
            connection.close()
            return
        self._connection = connection
        self.stats["reconnects"] += self._status == Client.RECONNECTING
        self._pings_out = 0
        for sid, subscription in self._subs.items():
            connection.out.send(partial(connection.subscribe, sid, subscription.subject))
        buffered, self._buffered = self._buffered, []
        for send in buffered:
            send(connection)
        self._status = Client.CONNECTED

    # what the bus sends

    async def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        if self._status == Client.CLOSED:
            raise ConnectionClosedError

        def send(connection: ServerConnection) -> None:
            connection.out.send(partial(self._broker.receive, connection, subject, reply, headers, payload))

        self._send(send)

    def _send(self, send: Callable[[ServerConnection], None]) -> None:
        if self._connection is not None:
            send(self._connection)
        else:
            self._buffered.append(send)

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        self._inboxes += 1
        token = str(self._inboxes)
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._requests[token] = future
        try:
            await self.publish(subject, payload, f"{self._request_inbox}.{token}", headers)
            async with asyncio.timeout(timeout):
                message = await future
        except TimeoutError:
            raise NatsTimeoutError from None
        finally:
            del self._requests[token]
        if not message.data and (message.headers or {}).get("Status") == "503":
            raise NoRespondersError
        return message

    async def _answered(self, message: Msg) -> None:
        future = self._requests.get(message.subject.rpartition(".")[2])
        if future is not None and not future.done():
            future.set_result(message)

    async def subscribe(self, subject: str, queue: str = "", cb: Any = None, **limits: Any) -> Subscription:  # type: ignore[override]
        if self._status == Client.CLOSED:
            raise ConnectionClosedError
        self._sid += 1
        subscription = Subscription(self, self._sid, subject, queue=queue, cb=cb)
        self._subs[self._sid] = subscription
        if subject.startswith(_INBOX):
            self._inbox_callbacks[self._sid] = cb
        else:
            subscription._start(self._callback_failed)  # type: ignore[no-untyped-call]  # as the library has it
        self._send(partial(_subscribe, self._sid, subject))
        return subscription

    async def _callback_failed(self, error: Exception) -> None:
        log.debug("bus client error", client=self._client_name, error=repr(error))

    async def _send_unsubscribe(self, sid: int, limit: int = 0) -> None:
        connection = self._connection
        if connection is not None:
            connection.out.send(partial(connection.unsubscribe, sid))

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        self._inbox_callbacks.pop(sid, None)
        subscription = self._subs.pop(sid, None)
        if subscription is not None:
            subscription._closed = True

    def new_inbox(self) -> str:
        self._inboxes += 1
        return f"{_INBOX}{self._client_name}.{self._inboxes}"

    async def flush(self, timeout: float = 10) -> None:
        """One round trip. Raises nats errors."""
        if self._connection is None:
            raise ConnectionClosedError
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_pongs.append(future)
        connection = self._connection
        connection.out.send(partial(self._broker.pinged, connection))
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            raise NatsTimeoutError from None

    async def close(self) -> None:
        """End the connection: the server forgets its subscriptions and requests."""
        if self._status == Client.CLOSED:
            return
        connection, self._connection = self._connection, None
        self._status = Client.CLOSED
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        for subscription in self._subs.values():
            subscription._stop_processing()
        self._subs.clear()
        self._inbox_callbacks.clear()
        if connection is not None:
            connection.back.close()
            connection.out.send(connection.close)
        self._fail_flushes()

    # what the server sends: tests.support.jetstream.connection.Receiver

    def message(self, sid: int, subject: str, reply: str, headers: Mapping[str, str] | None, body: bytes) -> None:
        self._is_quiet = False
        message = DeliveredMsg(self, subject, reply, body, dict(headers) if headers else None)
        callback = self._inbox_callbacks.get(sid)
        if callback is not None:
            _run_at_once(callback(message))
        elif sid in self._subs:
            self._subs[sid]._pending_queue.put_nowait(message)

    def pong(self) -> None:
        self._is_quiet, self._pings_out = False, 0
        if self._waiting_pongs:
            future = self._waiting_pongs.pop(0)
            if not future.done():
                future.set_result(None)

    def lost(self, connection: ServerConnection) -> None:
        if connection is not self._connection:
            return
        connection.back.close()
        self._connection = None
        self._status = Client.RECONNECTING
        self._fail_flushes()
        self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect(), name=f"{self._client_name} nats")

    def _fail_flushes(self) -> None:
        pongs, self._waiting_pongs = self._waiting_pongs, []
        for future in pongs:
            if not future.done():
                future.set_exception(ConnectionClosedError())
                future.exception()

    async def _reconnect(self) -> None:
        log.warning("bus connection lost", client=self._client_name)
        self._on_lost()
        while not self.is_closed and self._connection is None:
            try:
                await self._connect()
            except Unavailable:
                await asyncio.sleep(RECONNECT_SECONDS)
        if not self.is_closed:
            log.info("bus connected again", client=self._client_name)
            self._on_reconnect()

    def _ping_regularly(self) -> None:
        """Find a connection that is open on this side only, as nats-py does. Pings are sent only in silence."""
        if self._status == Client.CLOSED:
            return
        asyncio.get_running_loop().call_later(PING_SECONDS, self._ping_regularly)
        connection = self._connection
        if connection is None:
            return
        if not self._is_quiet:
            self._is_quiet, self._pings_out = True, 0
            return
        self._pings_out += 1
        if self._pings_out > MOST_PINGS_OUT:
            connection.back.close()
            self._link.send(connection.close)
            self.lost(connection)
        else:
            connection.out.send(partial(self._broker.pinged, connection))


class MemoryConnector(Connector):
    """Connects to a JetStreamBroker. See slackwater.bus.connect.connections.Connector."""

    def __init__(self, broker: JetStreamBroker, link: Link, name: str, wait_seconds: float) -> None:
        super().__init__("memory://broker", name, {}, wait_seconds)
        self._broker = broker
        self._link = link

    async def dial(self, suffix: str = "", on_reconnect: Callable[[], None] | None = None) -> Client:
        client = MemoryClient(self._broker, self._link, f"{self._name}{suffix}")
        is_first = on_reconnect is None

        def reconnected() -> None:
            (on_reconnect or self._on_reconnect)()

        def disconnected() -> None:
            if is_first:
                self._on_disconnect()

        client.on_change(reconnected, disconnected)
        await client.open(self._wait_seconds)
        return client


@asynccontextmanager
async def connect_memory_bus(
    broker: JetStreamBroker,
    *,
    name: str,
    link: Link | None = None,
    topology: Topology | None = None,
    declares: bool = True,
    wait_seconds: float = CONNECT_SECONDS,
    access: NatsAccess | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[NatsBus]:
    """Yields the real bus of one process on the in-memory server; `clock` is the process's.

    See slackwater.bus.connect.nats_bus.connect_bus."""
    connector = MemoryConnector(broker, link or SoonLink(), name, wait_seconds)
    own = topology or broker.topology
    async with open_bus(
        connector, name=name, topology=own, declares=declares, access=access, clock=broker.clock
    ) as bus:
        yield bus


def _subscribe(sid: int, subject: str, connection: ServerConnection) -> None:
    connection.out.send(partial(connection.subscribe, sid, subject))


def _run_at_once(callback: Coroutine[Any, Any, None]) -> None:
    """Run a callback of an inbox, none of which waits: a task for each message would cost more than the message."""
    try:
        callback.send(None)
    except StopIteration:
        return
    raise AssertionError("a callback of an inbox waits")


def _ignore() -> None:
    """Default callback: does nothing."""
