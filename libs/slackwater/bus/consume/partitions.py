"""Reads the owned partitions of one consumer through one buffer, so that batches stay large.

Each partition has its own durable consumer `NAME-pN`. Every owned one has a pull request open; the
messages are handed out together. When a partition is given away, reading stops, its buffered
messages return to the broker at once, and the hand-over waits until its messages in hand are
settled.

Where the consumer may jump, a partition that is further behind than the configured seconds of its
own work skips the backlog and continues with the newest message of each subject: under overload it
works on current state.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from slackwater.bus.admin.streams import durable_name
from slackwater.bus.consume.deliveries import NatsDelivery
from slackwater.bus.consume.partition_ownership import Unsettled
from slackwater.bus.consume.pull_requests import (
    RECEIVE_LIMIT_BYTES,
    ConsumerGone,
    Interrupted,
    description_of,
    status_of,
)
from slackwater.bus.consume.skip_to_latest import SkipToLatest
from slackwater.bus.consume.throughput import Throughput
from slackwater.model.errors import Unavailable

EXPIRES_SECONDS = 60.0
HEARTBEAT_SECONDS = 20.0
QUIET_SECONDS = 2.5 * HEARTBEAT_SECONDS
SMALLEST_REQUEST = 16


@dataclass(slots=True)
class _Line:
    """One partition: its subscription, its open pull request, and how many messages the request may
    still bring.
    """

    partition: int
    inbox: str
    subject: str
    subscription: Subscription | None = None
    number: int = 0
    is_open: bool = False
    left: int = 0
    pending: int = 0
    newest: int = 0
    received_up_to: int = 0
    stored_up_to: float = 0.0
    last_sign: float = 0.0


class PartitionedPuller:
    """Reads messages of the owned partitions of one consumer. One reader at a time."""

    def __init__(
        self, client: Client, stream: str, consumer: str, batch: int, jumps: SkipToLatest | None = None
    ) -> None:
        self._jumps = jumps
        self._pace = Throughput(batch // 4)
        self._given, self._given_at = 0, 0.0
        self._newest, self._jumped_at = 0, float("-inf")
        self._jumping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jumping.set_result(None)
        self._client = client
        self._stream = stream
        self._consumer = consumer
        self._batch = batch
        self._inbox = client.new_inbox()
        self._lines: dict[int, _Line] = {}
        self._buffer: list[tuple[_Line, NatsDelivery]] = []
        self._wake = asyncio.Event()
        self._failure: ConsumerGone | None = None
        self._closed = False

    async def acquire(self, partitions: Collection[int]) -> None:
        """Start reading partitions. Raises nats errors while there is no connection."""
        for partition in partitions:
            if partition in self._lines:
                continue
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{durable_name(self._consumer, partition)}"
            line = _Line(partition, f"{self._inbox}.{partition}", subject)
            line.subscription = await self._client.subscribe(
                f"{line.inbox}.*", cb=partial(self._receive, line), pending_bytes_limit=RECEIVE_LIMIT_BYTES
            )
            self._lines[partition] = line
        self._wake.set()

    async def release(self, partitions: Collection[int]) -> list[NatsDelivery]:
        """Stop reading partitions; returns their buffered messages, to be given back to the
        broker.
        """
        gone = [line for partition in partitions if (line := self._lines.pop(partition, None)) is not None]
        for line in gone:
            await self._unsubscribe(line)
        return self._taken_out(partitions)

    def drop(self, partitions: Collection[int]) -> list[NatsDelivery]:
        """As `give`, without waiting for messages in transit: they are redelivered after
        ack_wait.
        """
        for partition in partitions:
            line = self._lines.pop(partition, None)
            if line is not None and line.subscription is not None:
                task = asyncio.ensure_future(self._unsubscribe(line))
                task.add_done_callback(_forget)
        return self._taken_out(partitions)

    async def close(self) -> list[NatsDelivery]:
        """Stop reading everything."""
        self._closed = True
        self._wake.set()
        await asyncio.wait({self._jumping}, timeout=1)
        self._jumping.cancel()
        return await self.release(list(self._lines))

    def interrupt(self, reason: str) -> None:
        """End all open requests: their answers may have been lost."""
        self._failure = Interrupted(reason)
        for line in self._lines.values():
            line.is_open = False
        self._wake.set()

    async def next(self) -> list[NatsDelivery]:
        """Returns at least one message, or none when closed. Raises ConsumerGone, nats errors."""
        self._pace.handled(self._given, time.monotonic() - self._given_at)
        self._given = 0
        while not self._closed:
            self._wake.clear()
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            rest_seconds = self._jump_or_rest(self._jumps) if self._jumps is not None else 0.0
            if not rest_seconds:
                await self._ask()
            if self._buffer:
                return self._give_batch()
            await self._wait(rest_seconds or QUIET_SECONDS)
        return []

    def _give_batch(self) -> list[NatsDelivery]:
        found, self._buffer = self._buffer[: self._batch], self._buffer[self._batch :]
        self._given, self._given_at = len(found), time.monotonic()
        return [delivery for _, delivery in found]

    @property
    def has_more(self) -> bool:
        """Returns whether another full batch already waits, in the buffer or in the broker."""
        return self._waiting() >= self._batch

    def _waiting(self) -> int:
        return len(self._buffer) + sum(line.pending for line in self._lines.values())

    def _jump_or_rest(self, jumps: SkipToLatest) -> float:
        """Start a jump if the reader is too far behind. Returns the seconds for which no request is
        sent, 0 = send.
        """
        waiting = self._waiting()
        if not self._jumping.done() or waiting <= 2 * self._newest:
            return 0.0
        if self._pace.behind_seconds(waiting) <= jumps.behind_seconds:
            return 0.0
        early = self._jumped_at + jumps.pause_seconds - time.monotonic()
        if early <= 0:
            self._jumping = asyncio.create_task(self._jump(jumps), name=f"jump of {self._consumer}")
        elif jumps.rests and not any(line.newest for line in self._lines.values()):
            return early
        return 0.0

    async def _jump(self, jumps: SkipToLatest) -> None:
        """Jump while the reader continues with the buffer. After a failure the consumers are
        declared again, which also moves them to the newest messages.
        """
        lines, waited = list(self._lines.values()), self._waiting()
        for line in lines:
            line.number += 1  # answers to the request that is open now are no longer valid
            line.is_open, line.pending = True, 0
        try:
            left = await asyncio.gather(*(jumps.rewind(line.partition) for line in lines))
        except (NatsError, TimeoutError) as error:
            self.interrupt("a jump failed")
            self._failure = ConsumerGone(f"a jump failed: {error!r}")
            return
        for line, pending in zip(lines, left, strict=True):
            line.pending = line.newest = pending
            line.is_open = False
        self._newest, self._jumped_at = sum(left), time.monotonic()
        self._wake.set()
        jumps.jumped(max(0, waited - self._newest))

    async def _ask(self) -> None:
        """Open a request on every line without one, so that messages arrive while a batch is
        handled. The buffer never asks for more than it needs: a message that waits here too long is
        redelivered, and is stale when read.
        """
        if len(self._buffer) >= self._batch:
            return
        asked = [line for line in self._lines.values() if not line.is_open]
        size = min(self._batch, max(SMALLEST_REQUEST, -(-self._batch // max(1, len(self._lines)))))
        for line in asked:
            line.left = min(size, line.newest) or size  # after a jump only the messages it selected
            line.newest -= min(line.left, line.newest)
            line.number += 1
            line.is_open, line.last_sign = True, time.monotonic()
            await self._client.publish(line.subject, _request(line.left), reply=f"{line.inbox}.{line.number}")

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            limit = time.monotonic() - QUIET_SECONDS
            for line in self._lines.values():
                line.is_open = line.is_open and line.last_sign > limit  # not even a heartbeat: the request is lost

    async def _receive(self, line: _Line, message: Msg) -> None:
        line.last_sign = time.monotonic()
        status = status_of(message)
        if status is None:
            delivery = NatsDelivery(message)
            sequence = delivery.stream_sequence
            # A consumer recreated by a jump or after a loss does not know its earlier deliveries. A
            # message stored after all earlier ones is new, whatever its number: a stream in memory
            # counts from 1 again.
            is_new = sequence > line.received_up_to or delivery.stored_at_seconds > line.stored_up_to
            delivery.before = int(delivery.deliveries == 1 and not is_new)
            if is_new:
                line.received_up_to, line.stored_up_to = sequence, delivery.stored_at_seconds
            line.pending = delivery.pending
            self._buffer.append((line, delivery))
            line.left -= 1
            if line.left <= 0:
                line.is_open = False  # a request that brought its full batch ends without a status
            if len(self._buffer) >= self._batch or not line.is_open:
                self._wake.set()
        elif status != "100" and message.subject.rsplit(".", 1)[1] == str(line.number):
            line.is_open = False
            said = description_of(message)
            if status == "503" or (status == "409" and "Consumer" in said):
                self._failure = ConsumerGone(said or "no such consumer, or JetStream is not ready")
            self._wake.set()

    async def _unsubscribe(self, line: _Line) -> None:
        """Unsubscribe; messages the broker sent before it processed the request still arrive."""
        subscription, line.subscription = line.subscription, None
        if subscription is None or self._client.is_closed:
            return
        try:
            async with asyncio.timeout(1):
                await subscription.drain()  # type: ignore[no-untyped-call] # as the library has it
        except (NatsError, TimeoutError):
            return  # no connection: the broker has already dropped the subscription

    def _taken_out(self, partitions: Collection[int]) -> list[NatsDelivery]:
        out = [delivery for line, delivery in self._buffer if line.partition in partitions]
        self._buffer = [pair for pair in self._buffer if pair[0].partition not in partitions]
        return out


def _request(batch: int) -> bytes:
    return json.dumps(
        {
            "batch": batch,
            "no_wait": True,
            "expires": int(EXPIRES_SECONDS * 1e9),
            "idle_heartbeat": int(HEARTBEAT_SECONDS * 1e9),
        }
    ).encode()


def _forget(task: asyncio.Future[None]) -> None:
    if not task.cancelled():
        task.exception()


class WholeConsumption:
    """slackwater.bus.port.Consumption of an unpartitioned consumer."""

    async def acquire(self, partitions: Collection[int]) -> None:
        """No effect: it reads everything."""

    async def release(self, partitions: Collection[int]) -> None:
        """No effect: it continues."""

    def drop(self, partitions: Collection[int]) -> None:
        """No effect: it continues."""


WHOLE = WholeConsumption()


@dataclass(frozen=True, slots=True)
class Lane:
    """Some partitions of a consumer: their reader, and their messages in hand."""

    puller: PartitionedPuller
    in_hand: Unsettled

    async def work(self, batch: int, gather_seconds: float) -> bool:
        """Handle one batch, then pause if it was not full; returns whether there was any
        message.
        """
        deliveries = await self.puller.next()
        if deliveries:
            await self.in_hand.settle(deliveries)
        if gather_seconds and 0 < len(deliveries) < batch and not self.puller.has_more:
            await asyncio.sleep(gather_seconds)
        return bool(deliveries)

    async def close(self) -> None:
        await return_to_broker(await self.puller.close())


class PartitionedConsumption:
    """slackwater.bus.port.Consumption of a partitioned consumer. Partition p is in lane p modulo
    the number of lanes.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._returning: set[asyncio.Task[None]] = set()

    async def acquire(self, partitions: Collection[int]) -> None:
        try:
            for lane, own in self._divided(partitions):
                await lane.puller.acquire(own)
        except NatsError as error:
            raise Unavailable(f"not connected to NATS: {error!r}") from error

    async def release(self, partitions: Collection[int]) -> None:
        for lane, own in self._divided(partitions):
            await return_to_broker(await lane.puller.release(own))
        for lane, own in self._divided(partitions):
            await lane.in_hand.without(own)

    def drop(self, partitions: Collection[int]) -> None:
        left = [message for lane, own in self._divided(partitions) for message in lane.puller.drop(own)]
        if left:
            task = asyncio.ensure_future(return_to_broker(left))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    def _divided(self, partitions: Collection[int]) -> list[tuple[Lane, list[int]]]:
        count = len(self._lanes)
        return [(lane, [p for p in partitions if p % count == n]) for n, lane in enumerate(self._lanes)]


async def return_to_broker(deliveries: Collection[NatsDelivery]) -> None:
    """Return deliveries to the broker for immediate redelivery."""
    for delivery in deliveries:
        await delivery.nak(0)
