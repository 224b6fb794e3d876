"""Following on JetStream: one ordered reader per stream, all into one mailbox."""

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
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError

from slackwater.bus.following import Cause, Followed, Item, Mailbox, Missed, by_stream, followed, resumed
from slackwater.bus.ordered import OrderedReader, Start
from slackwater.bus.streams import Topology
from slackwater.events.envelope import Payload, subjects_of
from slackwater.model.errors import Unavailable

FOLLOW_BATCH = 50
LOOK_BACK_SECONDS = 5.0
"""After a wait this long for the taker, the stream may have let go of what comes next."""
FORGOTTEN_AFTER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """What is wanted: see slackwater.bus.port.Bus.follow."""

    payloads: Sequence[type[Payload]]
    after: Mapping[str, int]
    since: datetime | None
    keys: Sequence[str]
    bodies: bool


class Part:
    """One stream of a following."""

    def __init__(
        self, stream: str, reader: OrderedReader, js: JetStreamContext, look: Look, mailbox: Mailbox, position: int
    ) -> None:
        self.stream = stream
        self.reader = reader
        self.position = position
        self._js = js
        self._payloads = {payload.TYPE: payload for payload in look.payloads}
        self._mailbox = mailbox
        self.last_value = False

    async def work(self) -> bool:
        """One batch from the stream to the mailbox."""
        messages = await self.reader.next()
        items = [item for message in messages if (item := self._item(message)) is not None]
        if messages:
            self.position = messages[-1].metadata.sequence.stream
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._mailbox.put(items)
        await self._mailbox.put([])  # until it has been taken
        if loop.time() - began > LOOK_BACK_SECONDS:
            await self._tell_of_a_gap()
        return bool(messages)

    async def _tell_of_a_gap(self) -> None:
        state = (await self._js.stream_info(self.stream)).state
        if not self.last_value and state.first_seq > self.position + 1:
            missed = Missed(self.stream, self.position, state.first_seq - 1, Cause.EXPIRED)
            self.position = missed.resumed_after
            await self._mailbox.put([missed])

    def _item(self, message: Msg) -> Followed | None:
        sequence = message.metadata.sequence.stream
        return followed(self._payloads, message.subject, message.headers, message.data, self.stream, sequence)


class NatsFollowing:
    """See slackwater.bus.following.Following. Made by `begin`."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self.parts: list[Part] = []
        self.mailbox = Mailbox()
        self._missed: list[Item] = []

    async def next(self) -> Sequence[Item]:
        if self._missed:
            missed, self._missed = self._missed, []
            return missed
        return await self.mailbox.take()

    async def begin(self, client: Client, js: JetStreamContext, topology: Topology, look: Look) -> None:
        """Find where to start in every stream. Raises Unavailable."""
        try:
            for stream, payloads in by_stream(look.payloads).items():
                last_value = topology.streams[stream].max_messages_per_subject == 1
                position = await self._start(js, stream, look, last_value=last_value)
                filters = [each for payload in payloads for each in _filters(payload, look.keys)]
                reader = OrderedReader(
                    client, js, stream, filters, Start(position), FOLLOW_BATCH, headers_only=not look.bodies
                )
                part = Part(stream, reader, js, look, self.mailbox, position)
                part.last_value = last_value
                self.positions[stream] = position
                self.parts.append(part)
        except (NatsError, APIError, TimeoutError) as error:
            raise Unavailable(f"the streams cannot be read now: {error!r}") from error

    async def _start(self, js: JetStreamContext, stream: str, look: Look, *, last_value: bool) -> int:
        state = (await js.stream_info(stream)).state
        if stream in look.after:
            position, missed = resumed(
                stream, look.after[stream], state.first_seq, state.last_seq, last_value=last_value
            )
            self._missed += [missed] if missed is not None else []
            return position
        return state.last_seq if look.since is None else await _position_at(js, stream, look.since)


async def _position_at(js: JetStreamContext, stream: str, moment: datetime) -> int:
    """The last position that was stored before a time, asked of a consumer that begins there."""
    info = await js.add_consumer(
        stream,
        ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            mem_storage=True,
            inactive_threshold=FORGOTTEN_AFTER_SECONDS,
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_time=moment.astimezone(UTC),
        ),
    )
    with suppress(NatsError, APIError, TimeoutError):
        await js.delete_consumer(stream, info.name)
    return info.delivered.stream_seq if info.delivered is not None else 0


def _filters(payload: type[Payload], keys: Sequence[str]) -> list[str]:
    """All subjects of a type, or those below any of the keys."""
    if not keys:
        return [subjects_of(payload)]
    below = [subjects_of(payload, key) for key in keys]
    return [each for one in below for each in (one.removesuffix(".>"), one)]
