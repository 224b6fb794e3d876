"""Pull requests to JetStream: one open request per consumer, answered as soon as a message is
available.

A request with `no_wait` and `expires` waits on the server for the first message, then returns all
available messages, up to the batch size, and ends with a 404: low latency, and an idle consumer
costs one request per EXPIRES_SECONDS. Heartbeats distinguish an idle request from a lost one.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from slackwater.bus.connect.access import API_PREFIX
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

EXPIRES_SECONDS = 30.0
HEARTBEAT_SECONDS = 10.0
QUIET_SECONDS = 2.5 * HEARTBEAT_SECONDS
RECEIVE_LIMIT_BYTES = 256 * 1024 * 1024
FIRST_PAUSE_SECONDS = 0.05
_ACKNOWLEDGED_ON = "$JS.ACK."
LONGEST_PAUSE_SECONDS = 5.0


class ConsumerGone(Exception):
    """The consumer does not, or no longer, exist in the broker."""


class Interrupted(ConsumerGone):
    """The client gave up the open request: its answer may have been lost with the connection."""


@dataclass(slots=True)
class Pauses:
    """Growing pauses between failed attempts, so that no fault becomes a busy loop."""

    failures: int = 0

    def reset(self) -> None:
        self.failures = 0

    async def next(self) -> None:
        self.failures += 1
        await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2 ** min(self.failures, 10), LONGEST_PAUSE_SECONDS))


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
        self._client = client
        self._subject = f"{api_prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = client.new_inbox()
        self._batch = batch
        self._ahead = ahead
        self._number = 0
        self._received = 0
        self._messages: list[Msg] = []
        self._complete = asyncio.Event()
        self._complete.set()
        self._failure: ConsumerGone | None = None
        self._last_sign = 0.0
        self._subscription: Subscription | None = None
        self._closed = False
        self.idle = False
        """The last request ended because the broker had no message, and not because it was lost."""
        self._request = json.dumps(
            {
                "batch": batch,
                "no_wait": True,
                "expires": int(EXPIRES_SECONDS * 1e9),
                "idle_heartbeat": int(HEARTBEAT_SECONDS * 1e9),
            }
        ).encode()

    async def open(self) -> None:
        self._subscription = await self._client.subscribe(
            f"{self._inbox}.*", cb=self._receive, pending_bytes_limit=RECEIVE_LIMIT_BYTES
        )

    async def close(self) -> list[Msg]:
        """Stop; returns messages that arrived and were not taken, so that another reader gets them
        at once.
        """
        self._closed = True
        self._complete.set()
        subscription, self._subscription = self._subscription, None
        if subscription is not None and not self._client.is_closed:
            await subscription.unsubscribe()
        left, self._messages = self._messages, []
        return left

    def interrupt(self, reason: str) -> None:
        """End the open request: its answer may have been lost."""
        self._failure = Interrupted(reason)
        self._complete.set()

    async def next(self) -> list[Msg]:
        """Returns at least one message; empty when closed or when the request ended without any.
        Raises ConsumerGone.
        """
        if not self._messages:
            await self._ask()
        messages, self._messages = self._messages[: self._batch], self._messages[self._batch :]
        if messages:
            if self._ahead and len(messages) >= self._batch and not self._messages and self._may_ask:
                await self._send_request()
            return messages
        failure, self._failure = self._failure, None
        if failure is not None and not self._closed:
            raise failure
        return []

    @property
    def _may_ask(self) -> bool:
        """Returns whether a request may be sent: none is open, and no pause is due."""
        return self._complete.is_set() and not self._closed and self._failure is None

    async def _send_request(self) -> None:
        self._complete.clear()
        self.idle = False
        self._number += 1
        self._received = 0
        self._last_sign = time.monotonic()
        await self._client.publish(self._subject, self._request, reply=f"{self._inbox}.{self._number}")

    async def _ask(self) -> None:
        """Send a request unless one is open, and wait until it has ended."""
        if self._may_ask:
            await self._send_request()
        while not self._complete.is_set():
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._complete.wait()
            except TimeoutError:
                if time.monotonic() - self._last_sign >= QUIET_SECONDS:
                    self._complete.set()  # not even a heartbeat: the request is lost, a new one costs nothing

    async def _receive(self, message: Msg) -> None:
        self._last_sign = time.monotonic()
        status = status_of(message)
        if status is None:
            self._messages.append(message)
            self._received += 1
            if self._received >= self._batch:
                self._complete.set()
        elif message.subject.rsplit(".", 1)[1] == str(self._number):
            self._end_of_request(status, message)

    def _end_of_request(self, status: str, message: Msg) -> None:
        if status == "100":  # heartbeat
            return
        if status == "503" or (status == "409" and "Consumer" in description_of(message)):
            self._failure = ConsumerGone(description_of(message) or "no such consumer, or JetStream is not ready")
        elif status == "409":
            log.warning("pull request ended", subject=self._subject, detail=description_of(message))
        else:  # 404 no messages, 408 none came in time
            self.idle = self._received == 0
        self._complete.set()


def status_of(message: Msg) -> str | None:
    """Returns the status code of a broker status; None for a stream message, whatever headers its
    publisher set: only a stream message has a reply subject for its acknowledgement.
    """
    if message.data or not message.headers or message.reply.startswith(_ACKNOWLEDGED_ON):
        return None
    return message.headers.get("Status")


def description_of(message: Msg) -> str:
    return (message.headers or {}).get("Description", "")
