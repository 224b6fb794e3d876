"""Reads a stream in order without acknowledgement, for watch and replay.

An ephemeral consumer is cheap, so every uncertainty (new connection, gap in its numbering, consumer
gone) has the same remedy: create another one just after the last message seen.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamState
from nats.js.errors import NotFoundError

from slackwater.bus.codec.cloudevents import MESSAGE_ID
from slackwater.bus.connect.access import API_PREFIX, NatsAccess
from slackwater.bus.consume.pull_requests import EXPIRES_SECONDS, ConsumerGone, Interrupted, Puller
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

REMEMBERED = 512
"""Delivered messages remembered by id: more than a killed broker can have sent without storing
them.
"""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: after a stream position, or (None) with the last message of every subject."""

    after_sequence: int | None


@dataclass(frozen=True, slots=True)
class Confined:
    """The consumer of a client that may use only one, by name and with one filter, and may not read
    the stream state.
    """

    consumer: str
    api_prefix: str


def confined_to(access: NatsAccess | None) -> Confined | None:
    """Returns the only consumer that a client with this access may use; None if it may use any."""
    if access is None or access.api_prefix == API_PREFIX or access.name is None:
        return None
    return Confined(access.name, access.api_prefix)


class OrderedReader:
    """Reads the messages of some subjects of one stream in order, each once for as long as the
    stream exists.

    A killed broker may have sent messages that it had not stored. Their publishers got no
    acknowledgement and publish them again: under the old position, a later one, or after another
    message that now has the old position. A new consumer therefore begins a little before the last
    position, and delivered messages are skipped by id.
    """

    def __init__(
        self,
        client: Client,
        js: JetStreamContext,
        stream: str,
        filters: list[str],
        start: Start,
        batch: int,
        *,
        headers_only: bool = False,
        confined: Confined | None = None,
    ) -> None:
        self._client = client
        self._js = js
        self._stream = stream
        self._filters = filters
        self._start = start
        self._after = start.after_sequence
        self._whole_after = start.after_sequence or 0
        self._delivered: OrderedDict[str, int] = OrderedDict()
        self._batch = batch
        self._confined = confined
        self._headers_only = headers_only
        self._puller: Puller | None = None
        self._interrupted: str | None = None
        self._consumer_sequence = 0
        self.opens = 0
        """Number of times reading was started; more than one means an uncertainty in between."""
        self.idle = False
        """The last `next` returned nothing because the subjects had no message, at any time since
        the call.
        """
        self._anew: int | None = None
        self._pending = 0
        """Messages that were stored for the consumer when it was created."""

    async def had_none(self) -> bool:
        """Returns whether the subjects had no message when reading began; begins it if need be. Without this, a reader
        of an empty subject knows only after a whole request. Raises nats errors."""
        if self._puller is None:
            self._puller = await self._open()
        return self._pending == 0 and self._consumer_sequence == 0

    async def next(self) -> list[Msg]:
        """Returns at least one message, or none after a wait without any. Raises nats errors,
        ConsumerGone.
        """
        if self._puller is None:
            self._puller = await self._open()
        if self._interrupted is not None:  # while it was being opened
            reason, self._interrupted = self._interrupted, None
            raise Interrupted(reason)
        new: list[Msg] = []
        puller, self.idle = self._puller, False
        messages = await puller.next()
        self.idle = not messages and puller.idle
        for message in messages:
            sequence = message.metadata.sequence
            if sequence.consumer != self._consumer_sequence + 1:
                log.info("hole in stream", stream=self._stream, after=self._after)
                await self.reset()
                break
            if self._consumer_sequence == 0 and self._stands_in_for_another(message):
                self._begin_anew(0)
                await self.reset()
                break
            self._consumer_sequence = sequence.consumer
            self._after = max(self._after or 0, sequence.stream)
            if self._is_new(message):
                new.append(message)
        return new

    def passed(self, sequence: int) -> None:
        """Note that these subjects have no undelivered message up to `sequence`."""
        self._after = max(self._after or 0, sequence)

    def begun_anew(self) -> int | None:
        """Returns, once, the position behind which reading continues after the earlier positions
        became invalid.
        """
        restarted_after, self._anew = self._anew, None
        return restarted_after

    def rewind(self, after_sequence: int) -> None:
        """Go back to a position at the next reset."""
        self._after = after_sequence
        for identity in [identity for identity, sequence in self._delivered.items() if sequence > after_sequence]:
            del self._delivered[identity]

    async def reset(self) -> None:
        """Drop the consumer; the next read creates a new one."""
        puller, self._puller = self._puller, None
        if puller is not None:
            await puller.close()

    def interrupt(self, reason: str) -> None:
        if self._puller is not None:
            self._puller.interrupt(reason)
        else:
            self._interrupted = reason

    async def _open(self) -> Puller:
        if self._confined is not None:
            return await self._open_confined(self._confined)
        first = self._first((await self._js.stream_info(self._stream)).state)
        config = ConsumerConfig(
            filter_subjects=self._filters,
            ack_policy=AckPolicy.NONE,
            mem_storage=True,
            inactive_threshold=2 * EXPIRES_SECONDS,
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT if first is None else DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=first,
            headers_only=self._headers_only or None,
        )
        info = await self._js.add_consumer(self._stream, config)
        self._consumer_sequence, self._pending = 0, info.num_pending or 0
        puller = Puller(self._client, self._stream, info.name, self._batch)
        await puller.open()
        self.opens += 1
        return puller

    async def _open_confined(self, confined: Confined) -> Puller:
        """Opens the reader on the last message of every subject, each time; delivered messages are
        skipped by id.
        """
        with suppress(NotFoundError):
            await self._js.delete_consumer(self._stream, confined.consumer)
        (only,) = self._filters
        config = ConsumerConfig(
            name=confined.consumer,
            filter_subject=only,
            ack_policy=AckPolicy.NONE,
            mem_storage=True,
            inactive_threshold=2 * EXPIRES_SECONDS,
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        )
        info = await self._js.add_consumer(self._stream, config)
        self._consumer_sequence, self._pending = 0, info.num_pending or 0
        puller = Puller(self._client, self._stream, confined.consumer, self._batch, confined.api_prefix)
        await puller.open()
        return puller

    def _first(self, state: StreamState) -> int | None:
        """Returns the position to read from, None for the last message of every subject."""
        if self._after is not None and self._after > state.last_seq:
            # A tail lost by a killed broker, or a memory stream after its restart.
            log.warning("stream lost its tail", stream=self._stream, ends_at=state.last_seq, was_at=self._after)
            self._after = self._anew = state.last_seq
            if self._whole_after > state.last_seq:
                # One that still has its first message was wiped, or is young: nothing of it need be left out.
                self._begin_anew(0 if state.first_seq <= 1 else max(0, state.last_seq - REMEMBERED))
        if self._after is None:
            self._whole_after = state.last_seq
            return None
        known = [sequence for sequence in self._delivered.values() if self._whole_after < sequence <= self._after]
        return min(known, default=self._after + 1)

    def _begin_anew(self, after_sequence: int) -> None:
        """Discard all positions, which mean nothing in a recreated stream. Delivered messages stay
        known by id.
        """
        self._after = None if self._start.after_sequence is None else after_sequence
        self._whole_after = after_sequence
        self._anew = self._after
        self._delivered = OrderedDict.fromkeys(self._delivered, 0)

    def _stands_in_for_another(self, message: Msg) -> bool:
        """Returns whether the oldest remembered position now holds a different message."""
        here = [
            identity for identity, sequence in self._delivered.items() if sequence == message.metadata.sequence.stream
        ]
        return here != [] and _identity(message) not in here

    def _is_new(self, message: Msg) -> bool:
        identity = _identity(message)
        known = identity in self._delivered
        self._delivered[identity] = message.metadata.sequence.stream
        self._delivered.move_to_end(identity)
        while len(self._delivered) > REMEMBERED:
            self._delivered.popitem(last=False)
        return not known


def _identity(message: Msg) -> str:
    """Returns the publisher's id of a message; without one, its position."""
    return (message.headers or {}).get(MESSAGE_ID) or f"#{message.metadata.sequence.stream}"


__all__ = ["Confined", "ConsumerGone", "OrderedReader", "Start"]
