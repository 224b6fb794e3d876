"""Publishes with an acknowledgement per message; a lost connection ends the wait at once, not at a
timeout.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from slackwater.bus.codec.cloudevents import Message
from slackwater.model.errors import InvalidInput, StreamFull, Unavailable

SUBJECT_BYTES = 1024
"""A longer subject approaches the broker's control line limit (4 KiB with the reply), beyond which
it disconnects.
"""
MESSAGE_TOO_LARGE = 10054
"""JetStream's error code for a message above the limit of its stream."""
_HEADER_BYTES = 16
"""Upper estimate per header block and per header line, in addition to name and value."""


class NotStored(Unavailable):
    """No stream captures the subject: it was deleted or declared differently, or JetStream is
    starting.
    """


_NO_LEADER = 503
"""The code of JetStream's refusals while a stream, or the whole cluster, has no leader."""
_STORE_FAILED = 10077
"""JetStream's error code for a message that was not stored: the stream is at its limit, or its disk fails."""
_AT_LIMIT = "maximum "
"""How the description begins of a stream at its limit (bytes, messages)."""
_DISK_HINT = "if this persists, the broker's disk is or was full: free space there, then restart nats-server"


class StreamPublisher:
    """Publishes concurrently; each message is acknowledged, refused, or Unavailable after
    `timeout_seconds`.
    """

    def __init__(self, client: Client, timeout_seconds: float, most_bytes: int | None = None) -> None:
        """`most_bytes`: what the account may publish, where that is less than the broker takes."""
        self._client = client
        self._most_bytes = most_bytes
        self._timeout = timeout_seconds
        self._inbox = client.new_inbox()
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._troubles: dict[str, str] = {}
        self._missing: dict[str, str] = {}
        self.unanswered_since: float | None = None
        """Since when the connected broker has served no message, by the clock of the loop."""

    @property
    def trouble(self) -> str:
        """Returns why the connected broker did not store the last message of a stream; empty when
        it did. Tracked per stream: one in memory still accepts messages when the disk of the others
        is full. A stream at its own limit is no trouble of the broker, and a restart would not help.
        """
        return next(iter(self._troubles.values()), "")

    @property
    def missing(self) -> str:
        """Returns the stream missing for the last message published; empty when none is missing."""
        return next(iter(self._missing.values()), "")

    async def open(self) -> None:
        await self._client.subscribe(f"{self._inbox}.*", cb=self._answered)

    def connection_lost(self) -> None:
        """Fail all publishes in flight: whether they were stored is unknown, so publishers retry
        (repeats are dropped).
        """
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Unavailable("connection to NATS lost before the message was confirmed"))

    async def store(self, stream: str, message: Message) -> int:
        """Store a message; returns its position in the stream. Raises Unavailable with the broker's
        answer, StreamFull when the stream is at its limit; InvalidInput for a message that it can
        never accept, NotStored when no stream captures the subject.
        """
        _refuse_unsendable(message, self._most_bytes or self._client.max_payload)
        if not self._client.is_connected:
            raise Unavailable(f"not connected to NATS: {message.subject} was not published")
        token = str(next(self._numbers))
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        try:
            await self._client.publish(
                message.subject, message.body, reply=f"{self._inbox}.{token}", headers=dict(message.headers)
            )
            async with asyncio.timeout(self._timeout):  # wait_for swallows a cancellation that meets the answer
                answer = json.loads(await future)
        except TimeoutError as error:
            self._unanswered()
            text = f"stream {stream} did not confirm {message.subject} within {self._timeout:g} s"
            if self._client.is_connected:
                self._troubles[stream] = f"{text}; {_DISK_HINT}"
            raise Unavailable(text) from error
        except NotStored as error:
            self._unanswered()
            self._missing[stream] = f"stream {stream} is not there for {message.subject}: {error.message}"
            raise
        except NatsError as error:
            raise Unavailable(f"{message.subject} was not published: {error!r}") from error
        finally:
            del self._waiting[token]
        self._missing.pop(stream, None)
        if "error" in answer and answer["error"].get("code") == _NO_LEADER:
            self._unanswered()
        else:
            self.unanswered_since = None
        if "error" in answer:
            text = _refusal_text(stream, message, answer["error"])
            if answer["error"].get("err_code") == MESSAGE_TOO_LARGE:
                raise InvalidInput(text, code="message_too_large")
            if _is_at_limit(answer["error"]):
                self._troubles.pop(stream, None)
                raise StreamFull(text)
            self._troubles[stream] = text
            raise Unavailable(text)
        self._troubles.pop(stream, None)
        return int(answer.get("seq", 0))

    def _unanswered(self) -> None:
        if self.unanswered_since is None:
            self.unanswered_since = asyncio.get_running_loop().time()

    async def _answered(self, message: Msg) -> None:
        future = self._waiting.get(message.subject.rsplit(".", 1)[1])
        if future is None or future.done():
            return
        if not message.data and (message.headers or {}).get("Status") == "503":
            future.set_exception(NotStored("no stream takes this subject: JetStream is starting or not declared"))
        else:
            future.set_result(message.data)


def _refuse_unsendable(message: Message, max_payload: int) -> None:
    """Raises InvalidInput for a message at which the broker would close the connection, which all
    publishers share.
    """
    if len(message.subject.encode()) > SUBJECT_BYTES:
        text = f"subject {message.subject[:80]}…: {len(message.subject)} bytes; at most {SUBJECT_BYTES} are allowed"
        raise InvalidInput(text, code="subject_too_long")
    if "" in message.subject.split("."):  # no stream takes it, and its publisher would wait for one for ever
        raise InvalidInput(f"subject {message.subject!r} has an empty part: a name is empty", code="subject_malformed")
    headers = sum(len(name) + len(value) + _HEADER_BYTES for name, value in message.headers.items())
    size = len(message.body) + headers + _HEADER_BYTES
    if size > max_payload:
        text = f"{message.subject}: {size} bytes with headers, NATS takes {max_payload}"
        raise InvalidInput(text, code="message_too_large")


def _is_at_limit(error: dict[str, Any]) -> bool:
    return error.get("err_code") == _STORE_FAILED and str(error.get("description", "")).startswith(_AT_LIMIT)


def _refusal_text(stream: str, message: Message, error: dict[str, Any]) -> str:
    text = f"stream {stream} refused {message.subject}: {error.get('description')}"
    return f"{text} (JetStream {error.get('err_code')})"
