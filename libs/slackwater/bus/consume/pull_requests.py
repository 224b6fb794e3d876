"""Pull requests to JetStream: one open request per consumer, answered as soon as a message is
available.

A request with `no_wait` and `expires` waits on the server for the first message, then returns all
available messages, up to the batch size, and ends with a 404: low latency, and an idle consumer
costs one request per EXPIRES_SECONDS. Heartbeats distinguish an idle request from a lost one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from slackwater.bus.connect.access import API_PREFIX
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

EXPIRES_SECONDS = 30.0
HEARTBEAT_SECONDS = 10.0
RECEIVE_LIMIT_BYTES = 256 * 1024 * 1024
HEARTBEAT = "100"
_ACKNOWLEDGED_ON = "$JS.ACK."


class ConsumerGone(Exception):
    """The consumer does not, or no longer, exist in the broker."""


class Interrupted(ConsumerGone):
    """The client gave up the open request: its answer may have been lost with the connection."""


@dataclass(frozen=True, slots=True)
class RequestTimes:
    """How long a request waits for a first message, and how often the broker confirms that it is open."""

    expires_seconds: float
    heartbeat_seconds: float

    @property
    def quiet_seconds(self) -> float:
        """Returns the silence after which a request counts as lost."""
        return 2.5 * self.heartbeat_seconds


@dataclass(frozen=True, slots=True)
class RequestEnd:
    """The status with which the broker ended a request before its batch was full."""

    status: str
    detail: str

    @property
    def failure(self) -> ConsumerGone | None:
        if self.status == "503" or (self.status == "409" and "Consumer" in self.detail):
            return ConsumerGone(self.detail or "no such consumer, or JetStream is not ready")
        return None


class PullRequests:
    """The pull requests of one JetStream consumer, at most one open at a time.

    A request ends with its last message, with a status of the broker (`on_end`), when the client
    gives it up, or when it is lost: not even a heartbeat arrives.
    """

    def __init__(
        self,
        client: Client,
        subject: str,
        inbox: str,
        times: RequestTimes,
        on_message: Callable[[Msg], None],
        on_end: Callable[[RequestEnd], None],
    ) -> None:
        self._client = client
        self._subject = subject
        self._inbox = inbox
        self._times = times
        self._on_message = on_message
        self._on_end = on_end
        self._subscription: Subscription | None = None
        self._number = 0
        self._batch = 0
        self._last_sign = 0.0
        self.is_open = False
        self.received = 0
        """Messages since the last request was sent."""

    async def subscribe(self) -> None:
        self._subscription = await self._client.subscribe(
            f"{self._inbox}.*", cb=self._receive, pending_bytes_limit=RECEIVE_LIMIT_BYTES
        )

    async def unsubscribe(self) -> None:
        """Stop receiving: what is in transit is redelivered after ack_wait."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None and not self._client.is_closed:
            await subscription.unsubscribe()

    async def drain(self) -> None:
        """Unsubscribe; messages the broker sent before it processed the request still arrive."""
        subscription, self._subscription = self._subscription, None
        if subscription is None or self._client.is_closed:
            return
        with suppress(NatsError, TimeoutError):  # no connection: the broker has already dropped the subscription
            async with asyncio.timeout(1):
                await subscription.drain()  # type: ignore[no-untyped-call] # as the library has it

    async def send(self, batch: int) -> None:
        """Send a request for up to `batch` messages."""
        self.is_open, self._batch, self.received = True, batch, 0
        self._number += 1
        self._last_sign = asyncio.get_running_loop().time()
        await self._client.publish(self._subject, _request(batch, self._times), reply=f"{self._inbox}.{self._number}")

    def end(self) -> None:
        """Give up the open request; another one may be sent."""
        self.is_open = False

    def suspend(self) -> None:
        """Send none until `end`, and ignore how the broker ends the request that is open now."""
        self._number += 1
        self.is_open = True

    def end_if_lost(self) -> None:
        if asyncio.get_running_loop().time() - self._last_sign >= self._times.quiet_seconds:
            self.is_open = False

    async def _receive(self, message: Msg) -> None:
        self._last_sign = asyncio.get_running_loop().time()
        status = status_of(message)
        if status is None:
            self.received += 1
            if self.received >= self._batch:
                self.is_open = False  # a request that brought its full batch ends without a status
            self._on_message(message)
        elif status != HEARTBEAT and message.subject.rsplit(".", 1)[1] == str(self._number):
            self.is_open = False
            self._on_end(RequestEnd(status, (message.headers or {}).get("Description", "")))


@lru_cache(maxsize=256)
def _request(batch: int, times: RequestTimes) -> bytes:
    return json.dumps(
        {
            "batch": batch,
            "no_wait": True,
            "expires": int(times.expires_seconds * 1e9),
            "idle_heartbeat": int(times.heartbeat_seconds * 1e9),
        }
    ).encode()


class Puller:
    """Reads messages of one JetStream consumer in batches. One reader at a time.

    With `ahead`, after a full batch, the next one is requested while the reader works: twice as
    many messages are in hand.
    """

    def __init__(
        self,
        client: Client,
        stream: str,
        consumer: str,
        batch: int,
        api_prefix: str = API_PREFIX,
        *,
        ahead: bool = False,
    ) -> None:
        subject = f"{api_prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._times = RequestTimes(EXPIRES_SECONDS, HEARTBEAT_SECONDS)
        self._requests = PullRequests(client, subject, client.new_inbox(), self._times, self._receive, self._end)
        self._consumer = consumer
        self._batch = batch
        self._ahead = ahead
        self._messages: list[Msg] = []
        self._wake = asyncio.Event()
        self._failure: ConsumerGone | None = None
        self._closed = False
        self.idle = False
        """The last request ended because the broker had no message, and not because it was lost."""

    async def open(self) -> None:
        await self._requests.subscribe()

    async def close(self) -> list[Msg]:
        """Stop; returns messages that arrived and were not read, so that another reader gets them
        at once.
        """
        self._closed = True
        self._requests.end()
        self._wake.set()
        await self._requests.unsubscribe()
        unread, self._messages = self._messages, []
        return unread

    def interrupt(self, reason: str) -> None:
        """End the open request: its answer may have been lost."""
        self._failure = Interrupted(reason)
        self._requests.end()
        self._wake.set()

    async def next(self) -> list[Msg]:
        """Returns at least one message; empty when closed or when the request ended without any.
        Raises ConsumerGone.
        """
        if not self._messages:
            await self._pull()
        messages, self._messages = self._messages[: self._batch], self._messages[self._batch :]
        if messages:
            if self._ahead and len(messages) >= self._batch and not self._messages and self._may_send:
                await self._send()
            return messages
        failure, self._failure = self._failure, None
        if failure is not None and not self._closed:
            raise failure
        return []

    @property
    def _may_send(self) -> bool:
        """Returns whether a request may be sent: none is open, and no pause is due."""
        return not self._requests.is_open and not self._closed and self._failure is None

    async def _send(self) -> None:
        self.idle = False
        await self._requests.send(self._batch)

    async def _pull(self) -> None:
        """Send a request unless one is open, and wait until it has ended."""
        if self._may_send:
            await self._send()
        while self._requests.is_open:
            self._wake.clear()
            try:
                async with asyncio.timeout(self._times.quiet_seconds):
                    await self._wake.wait()
            except TimeoutError:
                self._requests.end_if_lost()

    def _receive(self, message: Msg) -> None:
        self._messages.append(message)
        if not self._requests.is_open:
            self._wake.set()

    def _end(self, end: RequestEnd) -> None:
        self._failure = end.failure or self._failure
        if end.status != "409":
            self.idle = end.failure is None and self._requests.received == 0
        elif end.failure is None:
            log.warning("pull request ended", consumer=self._consumer, detail=end.detail)
        self._wake.set()


def status_of(message: Msg) -> str | None:
    """Returns the status code of a broker status; None for a stream message, whatever headers its
    publisher set: only a stream message has a reply subject for its acknowledgement.
    """
    if message.data or not message.headers or message.reply.startswith(_ACKNOWLEDGED_ON):
        return None
    return message.headers.get("Status")
