"""Implements `follow` on JetStream: one ordered reader per stream, all feeding one mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamState
from nats.js.errors import APIError

from slackwater.bus.admin.streams import Topology
from slackwater.bus.read.ordered_reader import OrderedReader, Start
from slackwater.bus.read.stream_reader import (
    GapCause,
    Item,
    Mailbox,
    StreamEvent,
    StreamGap,
    bodies_of_reports,
    by_stream,
    resume_positions,
    stream_event,
)
from slackwater.bus.rosters.known_rosters import KnownRosters
from slackwater.events.envelope import Payload, subjects_of
from slackwater.model.errors import Unavailable

FOLLOW_BATCH = 50
LOOK_BACK_SECONDS = 5.0
"""After the consumer has been idle this long, retention may have removed the next messages."""
FORGOTTEN_AFTER_SECONDS = 5.0
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)
"""The broker counts nanoseconds in 64 bits; a time outside these bounds would wrap around."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The parameters of a read: see slackwater.bus.port.Bus.follow."""

    payloads: Sequence[type[Payload]]
    after: Mapping[str, int]
    since: datetime | None
    keys: Sequence[str]
    bodies: bool


class StreamPart:
    """One stream of a `follow`.

    `position` is the place to resume from: all matching messages up to it were handed out. The
    broker sends only matching messages, so when these are rare the position advances after each
    request that returned nothing; otherwise it would fall out of retention although no matching
    message was lost.
    """

    def __init__(
        self,
        stream: str,
        reader: OrderedReader,
        js: JetStreamContext,
        request: StreamRequest,
        mailbox: Mailbox,
        position: int,
        rosters: KnownRosters,
    ) -> None:
        self._rosters = rosters
        self.stream = stream
        self.reader = reader
        self.position = position
        self._js = js
        self._payloads = {payload.TYPE: payload for payload in request.payloads}
        self._mailbox = mailbox
        self._behind = False
        """More messages wait in the stream than were read, so retention may remove them first."""
        self._doubt: int | None = None
        """Messages after this position may be lost; the broker is asked until it answers."""
        self.last_value = False

    async def work(self) -> bool:
        """Move one batch from the stream to the mailbox."""
        end = await self._end() if self.reader.idle else None
        opens = self.reader.opens
        messages = await self.reader.next()
        await self._report_restart()
        if self._behind or 0 < opens < self.reader.opens:
            self._begin_doubt()
        await self._report_gap(messages[0].metadata.sequence.stream if messages else None)
        if messages:
            await self._hand_over(messages)
        elif self.reader.idle and end is not None:
            self._passed(end)
        return bool(messages)

    async def _hand_over(self, messages: Sequence[Msg]) -> None:
        items = [item for message in messages if (item := self._item(message)) is not None]
        await self._rosters.prepare(bodies_of_reports(items))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._mailbox.put(items)
        await self._mailbox.put([])  # until it has been taken
        last = messages[-1].metadata
        self._passed(last.sequence.stream)
        self._behind = last.num_pending > 0
        if loop.time() - began > LOOK_BACK_SECONDS:
            self._begin_doubt()
            await self._report_gap(None)

    def _passed(self, position: int) -> None:
        self.position = max(self.position, position)
        self.reader.passed(self.position)

    def _begin_doubt(self) -> None:
        if self._doubt is None:
            self._doubt = self.position

    async def _report_restart(self) -> None:
        anew = self.reader.begun_anew()
        if anew is not None:
            missed = StreamGap(self.stream, self.position, anew, GapCause.BEGAN_ANEW)
            self.position, self._doubt = anew, None
            await self._mailbox.put([missed])

    async def _report_gap(self, next_sequence: int | None) -> None:
        """Report a Missed item if the stream removed anything between the doubted position and the
        next message read.
        """
        if self._doubt is None or (state := await self._state()) is None:
            return
        doubt, self._doubt = self._doubt, None
        if self.last_value or state.first_seq <= doubt + 1 or next_sequence == doubt + 1:
            return
        gone = state.first_seq - 1
        resumed_after = max(self.position, gone if next_sequence is None else min(gone, next_sequence - 1))
        await self._mailbox.put([StreamGap(self.stream, doubt, resumed_after, GapCause.EXPIRED)])
        self.position = resumed_after

    async def _end(self) -> int | None:
        state = await self._state()
        return None if state is None else state.last_seq

    async def _state(self) -> StreamState | None:
        """Returns the stream state; None when the broker does not answer, so that a batch already
        read is not lost.
        """
        try:
            return (await self._js.stream_info(self.stream)).state
        except (NatsError, APIError, TimeoutError):
            return None

    def _item(self, message: Msg) -> StreamEvent | None:
        sequence = message.metadata.sequence.stream
        find = self._rosters.find
        return stream_event(self._payloads, message.subject, message.headers, message.data, self.stream, sequence, find)


class NatsStreamReader:
    """See slackwater.bus.read.stream_reader.StreamReader. Created by `begin`."""

    def __init__(self, rosters: KnownRosters) -> None:
        self._rosters = rosters
        self.parts: list[StreamPart] = []
        self.mailbox = Mailbox()
        self._missed: list[Item] = []

    @property
    def positions(self) -> Mapping[str, int]:
        return {part.stream: part.position for part in self.parts}

    async def next(self) -> Sequence[Item]:
        if self._missed:
            missed, self._missed = self._missed, []
            return missed
        return await self.mailbox.next_items()

    async def begin(self, client: Client, js: JetStreamContext, topology: Topology, request: StreamRequest) -> None:
        """Find the start position in every stream. Raises Unavailable."""
        try:
            for stream, payloads in by_stream(request.payloads).items():
                last_value = topology.streams[stream].max_messages_per_subject == 1
                position = await self._start(js, stream, request, last_value=last_value)
                filters = [each for payload in payloads for each in _filters(payload, request.keys)]
                reader = OrderedReader(
                    client, js, stream, filters, Start(position), FOLLOW_BATCH, headers_only=not request.bodies
                )
                part = StreamPart(stream, reader, js, request, self.mailbox, position, self._rosters)
                part.last_value = last_value
                self.parts.append(part)
        except (NatsError, APIError, TimeoutError) as error:
            raise Unavailable(f"the streams cannot be read now: {error!r}") from error

    async def _start(self, js: JetStreamContext, stream: str, request: StreamRequest, *, last_value: bool) -> int:
        state = (await js.stream_info(stream)).state
        if stream in request.after:
            position, missed = resume_positions(
                stream, request.after[stream], state.first_seq, state.last_seq, last_value=last_value
            )
            self._missed += [missed] if missed is not None else []
            return position
        return state.last_seq if request.since is None else await _position_at(js, stream, request.since)


async def _position_at(js: JetStreamContext, stream: str, moment: datetime) -> int:
    """Returns the last position stored before a time, from a consumer that starts there."""
    info = await js.add_consumer(
        stream,
        ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            mem_storage=True,
            inactive_threshold=FORGOTTEN_AFTER_SECONDS,
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_time=min(max(moment.astimezone(UTC), EARLIEST), LATEST),
        ),
    )
    with suppress(NatsError, APIError, TimeoutError):
        await js.delete_consumer(stream, info.name)
    return info.delivered.stream_seq if info.delivered is not None else 0


def _filters(payload: type[Payload], keys: Sequence[str]) -> list[str]:
    """Returns the subjects of a type, or those below any of the keys."""
    if not keys:
        return [subjects_of(payload)]
    below = [subjects_of(payload, key) for key in keys]
    return [each for one in below for each in (one.removesuffix(".>"), one)]
