"""Reads the owned partitions of one consumer through one buffer, so that batches stay large.

Each partition has its own durable consumer `NAME-pN`. Every owned one has a pull request open; the
messages are handed out together. When a partition is released, reading stops, its buffered
messages return to the broker at once, and the hand-over waits until its messages in hand are
settled.

Where the consumer may jump, a partition that is further behind than the configured seconds of its
own work skips the backlog and continues with the newest message of each subject: under overload it
works on current state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from slackwater.bus.admin.streams import durable_name
from slackwater.bus.connect.access import API_PREFIX
from slackwater.bus.consume.deliveries import NatsDelivery
from slackwater.bus.consume.partition_ownership import Unsettled
from slackwater.bus.consume.pull_requests import ConsumerGone, Interrupted, PullRequests, RequestEnd, RequestTimes
from slackwater.bus.consume.skip_to_latest import SkipToLatest, Throughput
from slackwater.bus.port import Holds
from slackwater.model.errors import Unavailable

TIMES = RequestTimes(expires_seconds=60.0, heartbeat_seconds=6.0)
"""In a cluster a consumer's leader may change while the connection stands: the request is lost without a word."""
SMALLEST_REQUEST = 16
LAPSED_SECONDS = 1.0
"""Pause before a partition whose lease has lapsed is looked at again: most leases are renewed after an outage."""


@dataclass(slots=True)
class _Partition:
    """One partition that is read: its requests, and what its consumer holds in the broker."""

    number: int
    requests: PullRequests
    pending: int = 0
    newest: int = 0
    """Messages that the last jump selected and no request has asked for yet."""
    received_up_to: int = 0
    stored_up_to: float = 0.0


class PartitionedPuller:
    """Reads messages of the owned partitions of one consumer. One reader at a time."""

    def __init__(
        self,
        client: Client,
        stream: str,
        consumer: str,
        batch: int,
        jumps: SkipToLatest | None = None,
        holds: Holds = lambda _: True,
    ) -> None:
        """`holds`: whether the lease on a partition lives. While it does not, nothing is requested:
        it would be given back unread, and each time the broker counts a delivery.
        """
        self._holds = holds
        self._jumps = jumps
        self._throughput = Throughput(batch // 4)
        self._handed_out, self._handed_out_at = 0, 0.0
        self._newest, self._jumped_at = 0, float("-inf")
        self._jumping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jumping.set_result(None)
        self._client = client
        self._stream = stream
        self._consumer = consumer
        self._batch = batch
        self._inbox = client.new_inbox()
        self._partitions: dict[int, _Partition] = {}
        self._buffer: list[tuple[_Partition, NatsDelivery]] = []
        self._wake = asyncio.Event()
        self._failure: ConsumerGone | None = None
        self._closed = False

    async def acquire(self, partitions: Collection[int]) -> None:
        """Start reading partitions. Raises nats errors while there is no connection."""
        for number in partitions:
            if number not in self._partitions:
                partition = self._partition(number)
                await partition.requests.subscribe()
                self._partitions[number] = partition
        self._wake.set()

    def _partition(self, number: int) -> _Partition:
        subject = f"{API_PREFIX}.CONSUMER.MSG.NEXT.{self._stream}.{durable_name(self._consumer, number)}"

        def receive(message: Msg) -> None:
            self._receive(partition, message)

        requests = PullRequests(self._client, subject, f"{self._inbox}.{number}", TIMES, receive, self._end)
        partition = _Partition(number, requests)
        return partition

    async def release(self, partitions: Collection[int]) -> list[NatsDelivery]:
        """Stop reading partitions; returns their buffered messages, to be returned to the broker."""
        for partition in self._removed(partitions):
            await partition.requests.drain()
        return self._unbuffered(partitions)

    def drop(self, partitions: Collection[int]) -> list[NatsDelivery]:
        """As `release`, without waiting for messages in transit: they are redelivered after
        ack_wait.
        """
        for partition in self._removed(partitions):
            asyncio.ensure_future(partition.requests.drain()).add_done_callback(_ignore_error)
        return self._unbuffered(partitions)

    def _removed(self, partitions: Collection[int]) -> list[_Partition]:
        return [removed for number in partitions if (removed := self._partitions.pop(number, None)) is not None]

    async def close(self) -> list[NatsDelivery]:
        """Stop reading everything."""
        self._closed = True
        self._wake.set()
        await asyncio.wait({self._jumping}, timeout=1)
        self._jumping.cancel()
        return await self.release(list(self._partitions))

    def interrupt(self, reason: str) -> None:
        """End all open requests: their answers may have been lost."""
        self._failure = Interrupted(reason)
        for partition in self._partitions.values():
            partition.requests.end()
        self._wake.set()

    async def next(self) -> list[NatsDelivery]:
        """Returns at least one message, or none when closed. Raises ConsumerGone, nats errors."""
        self._throughput.handled(self._handed_out, asyncio.get_running_loop().time() - self._handed_out_at)
        self._handed_out = 0
        while not self._closed:
            self._wake.clear()
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            rest_seconds = self._jump_or_rest(self._jumps) if self._jumps is not None else 0.0
            if not rest_seconds:
                self._end_lost_requests()
                await self._send_requests()
            if self._buffer:
                return self._hand_out()
            await self._wait(rest_seconds or self._quiet_seconds())
        return []

    def _quiet_seconds(self) -> float:
        """Returns how long to wait for messages; while a lease has lapsed, until it is looked at again."""
        return TIMES.quiet_seconds if all(map(self._holds, self._partitions)) else LAPSED_SECONDS

    def _hand_out(self) -> list[NatsDelivery]:
        batch, self._buffer = self._buffer[: self._batch], self._buffer[self._batch :]
        self._handed_out, self._handed_out_at = len(batch), asyncio.get_running_loop().time()
        return [delivery for _, delivery in batch]

    @property
    def has_more(self) -> bool:
        """Returns whether another full batch already waits, in the buffer or in the broker."""
        return self._waiting() >= self._batch

    def _waiting(self) -> int:
        return len(self._buffer) + sum(partition.pending for partition in self._partitions.values())

    def _jump_or_rest(self, jumps: SkipToLatest) -> float:
        """Start a jump if the reader is too far behind. Returns the seconds for which no request is
        sent, 0 = send.
        """
        waiting = self._waiting()
        if not self._jumping.done() or waiting <= 2 * self._newest:
            return 0.0
        if self._throughput.behind_seconds(waiting) <= jumps.behind_seconds:
            return 0.0
        early = self._jumped_at + jumps.pause_seconds - asyncio.get_running_loop().time()
        if early <= 0:
            self._jumping = asyncio.create_task(self._jump(jumps), name=f"jump of {self._consumer}")
        elif jumps.rests and not any(partition.newest for partition in self._partitions.values()):
            return early
        return 0.0

    async def _jump(self, jumps: SkipToLatest) -> None:
        """Jump while the reader continues with the buffer. After a failure the consumers are
        declared again, which also moves them to the newest messages.
        """
        partitions, waited = list(self._partitions.values()), self._waiting()
        for partition in partitions:
            partition.requests.suspend()
            partition.pending = 0
        try:
            left = await asyncio.gather(*(jumps.rewind(partition.number) for partition in partitions))
        except (NatsError, TimeoutError) as error:
            self.interrupt("a jump failed")
            self._failure = ConsumerGone(f"a jump failed: {error!r}")
            return
        for partition, pending in zip(partitions, left, strict=True):
            partition.pending = partition.newest = pending
            partition.requests.end()
        self._newest, self._jumped_at = sum(left), asyncio.get_running_loop().time()
        self._wake.set()
        jumps.jumped(max(0, waited - self._newest))

    async def _send_requests(self) -> None:
        """Send a request for every partition without an open one, so that messages arrive while a
        batch is handled. The buffer never asks for more than it needs: a message that waits here too
        long is redelivered, and is stale when read.
        """
        if len(self._buffer) >= self._batch:
            return
        size = min(self._batch, max(SMALLEST_REQUEST, -(-self._batch // max(1, len(self._partitions)))))
        for partition in [partition for partition in self._partitions.values() if self._may_request(partition)]:
            asked = min(size, partition.newest) or size  # after a jump only the messages it selected
            partition.newest -= min(asked, partition.newest)
            await partition.requests.send(asked)

    def _may_request(self, partition: _Partition) -> bool:
        return not partition.requests.is_open and self._holds(partition.number)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _end_lost_requests(self) -> None:
        """Also while other partitions are busy, so that one waits for its messages no longer than its silence tells."""
        if self._jumping.done():
            for partition in self._partitions.values():
                partition.requests.end_if_lost()

    def _receive(self, partition: _Partition, message: Msg) -> None:
        delivery = NatsDelivery(message)
        sequence = delivery.stream_sequence
        # A consumer recreated by a jump or after a loss does not know its earlier deliveries. A
        # message stored after all earlier ones is new, whatever its number: a stream in memory
        # counts from 1 again.
        is_new = sequence > partition.received_up_to or delivery.stored_at_seconds > partition.stored_up_to
        delivery.before = int(delivery.deliveries == 1 and not is_new)
        if is_new:
            partition.received_up_to, partition.stored_up_to = sequence, delivery.stored_at_seconds
        partition.pending = delivery.pending
        self._buffer.append((partition, delivery))
        if len(self._buffer) >= self._batch or not partition.requests.is_open:
            self._wake.set()

    def _end(self, end: RequestEnd) -> None:
        self._failure = end.failure or self._failure
        self._wake.set()

    def _unbuffered(self, partitions: Collection[int]) -> list[NatsDelivery]:
        out = [delivery for partition, delivery in self._buffer if partition.number in partitions]
        self._buffer = [pair for pair in self._buffer if pair[0].number not in partitions]
        return out


def _ignore_error(task: asyncio.Future[None]) -> None:
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
